from admire.apps.cli import main

main()

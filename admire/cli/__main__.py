from admire.cli import main

main()

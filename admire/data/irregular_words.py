"""English words whose forms do not begin alike: make and made, foot and feet."""

from __future__ import annotations

_FORMS = """
be am is are was were been being; have has had having;
do does did done doing; go goes went gone going;
bear bore borne born; beat beaten; become became; begin began begun; bend bent; bind bound;
bite bit bitten biting; bleed bled; blow blew blown; break broke broken; breed bred;
bring brought; build built; buy bought; catch caught; choose chose chosen; cling clung;
come came coming; creep crept; deal dealt; die dying died; dig dug; draw drew drawn;
drink drank drunk; drive drove driven driving; eat ate eaten; fall fell fallen; feed fed;
feel felt; fight fought; find found; flee fled; fling flung; fly flew flown;
forget forgot forgotten; forgive forgave; freeze froze frozen; get got gotten; give gave given;
grind ground; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept;
kneel knelt; know knew known; lay laid; lead led; leap leapt; leave left; lend lent;
lie lay lain lying lied; light lit; lose lost losing; make made making; mean meant; meet met;
pay paid; ride rode ridden riding; ring rang rung; rise rose risen; run ran; say said;
see saw seen; seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot shot;
shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; slay slew slain; sleep slept;
slide slid; sling slung; smell smelt; speak spoke spoken; spend spent; spin spun; spit spat;
spring sprang sprung; stand stood; steal stole stolen; stick stuck; sting stung; stink stank;
strike struck stricken; string strung; swear swore sworn; sweep swept; swim swam swum;
swing swung; take took taken taking; teach taught; tear tore torn; tell told; think thought;
throw threw thrown; tie tying tied; tread trod trodden; wake woke woken; wear wore worn;
weave wove woven; weep wept; win won; wind wound; write wrote written writing;
bad worse worst; calf calves; child children; die dice; foot feet; goose geese; half halves;
knife knives; leaf leaves; life lives; loaf loaves; louse lice; man men; mouse mice;
penny pence; person people; shelf shelves; thief thieves; tooth teeth; wife wives; wolf wolves;
woman women
"""

FORMS: dict[str, set[str]] = {}
"""By each form of a word, all of its forms, also those of another word with this form."""

for _words in _FORMS.split(";"):
    for _word in _words.split():
        FORMS.setdefault(_word, set()).update(_words.split())

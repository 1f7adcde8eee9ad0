"""Topics of the histories, and questions about them weeks later, mostly in other words.

`{v}` is the value that is told, `{old}` what it was before, `{name}` who told it. The first question of a topic shares
words with what was said, the others mean the same.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["single", "several", "time", "change"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """`says` are ways of telling it, `changes` of telling that it is another now, `asks` of asking."""

    kind: Kind
    says: tuple[str, ...]
    asks: tuple[str, ...]
    values: tuple[str, ...]
    changes: tuple[str, ...] = ()


def single(says: str, asks: str, values: str) -> Topic:
    return Topic(kind="single", says=_split(says), asks=_split(asks), values=_split(values))


def time(says: str, asks: str, values: str) -> Topic:
    return Topic(kind="time", says=_split(says), asks=_split(asks), values=_split(values))


def change(says: str, changes: str, asks: str, values: str) -> Topic:
    return Topic(kind="change", says=_split(says), changes=_split(changes), asks=_split(asks), values=_split(values))


def several(says: str, asks: str, values: str) -> Topic:
    """Each of the `values` is told by somebody else, and the question wants them all."""
    return Topic(kind="several", says=_split(says), asks=_split(asks), values=_split(values))


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("|"))


TOPICS: tuple[Topic, ...] = (
    single(
        "my sister {v} is visiting next month, she studies marine biology | by the way, my sister is called {v}",
        "What is the name of {name}'s sister? | Which sibling does {name} have?",
        "Ida | Ronja | Beatriz | Maren | Sofia | Leila",
    ),
    single(
        "I can't eat {v}, my throat swells up | careful with the food please: {v} and I don't get along at all",
        "What is {name} allergic to? | Which ingredient must be left out when cooking for {name}?",
        "peanuts | shellfish | celery | sesame | hazelnuts | kiwi",
    ),
    single(
        "the code for my bike lock is {v}, use it whenever you need the bike | bike lock: {v}, just put it back after",
        "What is the code of {name}'s bike lock? | Which digits open the chain of {name}'s bicycle?",
        "4471 | 9032 | 2718 | 6605 | 1349 | 8126",
    ),
    single(
        "we finally picked a name for the puppy: {v} | meet {v}, our new puppy, he already ate one of my shoes",
        "What is {name}'s puppy called? | What did they name the little dog at {name}'s place?",
        "Biscuit | Wotan | Pepper | Mochi | Falafel | Baloo",
    ),
    single(
        "I grew up in {v}, that's why the winters here don't bother me | {v} is where I spent my childhood",
        "Where did {name} grow up? | In which town was {name} raised?",
        "Tromsø | Oulu | Innsbruck | Halifax | Vilnius | Chamonix",
    ),
    single(
        "my first job was {v}, I still dream about it | before all this I earned my money {v}",
        "What was {name}'s first job? | How did {name} make a living at the beginning?",
        "repairing pianos | driving a tram | guarding a lighthouse | picking hops | selling umbrellas | tuning organs",
    ),
    single(
        "the wifi here is {v}, all in small letters | for guests: the network password is {v}",
        "What is the wifi password {name} gave? | How do visitors get online at {name}'s?",
        "quietotter88 | bluekettle17 | tallfern42 | softanchor63 | rustyharp29 | oldplum55",
    ),
    single(
        "my doctor says I should take {v} every morning now | new pills since yesterday: {v}, one after breakfast",
        "Which medicine does {name} take in the morning? | What was {name} prescribed?",
        "levothyroxine | ramipril | metformin | bisoprolol | atorvastatin | pantoprazole",
    ),
    single(
        "I'm reading {v} at the moment and cannot put it down | nearly finished with {v}, what a book",
        "Which book is {name} reading? | What novel did {name} enjoy so much?",
        "Moby-Dick | Middlemarch | Stoner | Austerlitz | Beloved | The Waves",
    ),
    single(
        "the landlord is a certain {v}, rarely picks up the phone | if anything breaks call {v}, the flat is hers",
        "Who is {name}'s landlord? | Whom does {name} pay the rent to?",
        "Mrs Okafor | Mrs Lindqvist | Mrs Petrov | Mrs Abruzzi | Mrs Hallam | Mrs Zeller",
    ),
    single(
        "I play the {v} in a small orchestra on weekends | got myself a used {v}, the neighbours will love it",
        "Which instrument does {name} play? | What does {name} make music on?",
        "bassoon | viola | oboe | French horn | cello | clarinet",
    ),
    single(
        "please send parcels for me to the kiosk in {v} | the courier never finds us, so: parcels to {v}",
        "Where should parcels for {name} go? | What is the delivery address {name} prefers?",
        "Mill Lane 4 | Harbour Road 19 | Chestnut Square 2 | Foundry Street 31 | Abbey Walk 7 | Quarry Hill 12",
    ),
    single(
        "my tent sleeps {v}, so we don't need a second one | there's room for {v} in my tent",
        "How many people fit into {name}'s tent? | What is the capacity of the thing {name} camps in?",
        "three people | five people | four people | six people | two people | seven people",
    ),
    single(
        "I always wanted to see {v}, maybe after the exams | the one journey I'm saving for is {v}",
        "Where does {name} want to travel one day? | What is {name}'s dream destination?",
        "Patagonia | Svalbard | Bhutan | the Faroe Islands | Madagascar | Hokkaido",
    ),
    single(
        "for the record, I support {v}, since I was six | never missed a home game of {v} in ten years",
        "Which club does {name} support? | Whose fan is {name} in football?",
        "St. Pauli | Union Berlin | Bodø/Glimt | Celtic | Girona | Bologna",
    ),
    single(
        "our printer only works if you {v} first, don't ask me why | the trick with the printer is to {v}",
        "What is the trick with {name}'s printer? | How does one get the thing to put something on paper at {name}'s?",
        "unplug it twice | open the back flap | hold the green button | feed one sheet by hand | turn off duplex | "
        "shake the cartridge",
    ),
    single(
        "ich habe den Ersatzschlüssel bei {v} hinterlegt | falls ihr vor der Tür steht: {v} hat den zweiten Schlüssel",
        "Wo liegt der Ersatzschlüssel von {name}? | Bei wem kommt man an den anderen Schlüssel von {name}?",
        "Herrn Mahnke | Frau Tietz | der Bäckerei | Familie Osei | dem Hausmeister | Frau Wieland",
    ),
    single(
        "meine Schuhgröße ist {v}, falls jemand Skischuhe übrig hat | ich brauche Skischuhe in {v}",
        "Welche Schuhgröße hat {name}? | Wie groß sind die Füße von {name}?",
        "38 | 41 | 43 | 45 | 39 | 46",
    ),
    single(
        "I parked the van {v}, the key is in the usual place | if you look for the van: it stands {v}",
        "Where is {name}'s van parked? | Where did {name} leave the vehicle?",
        "behind the brewery | at the ferry pier | next to the old mill | under the viaduct | by the tennis courts | "
        "in front of the library",
    ),
    single(
        "the only thing that helps my migraine is {v} | whenever my head hurts like that I swear by {v}",
        "What helps against {name}'s migraine? | What is {name}'s remedy for headaches?",
        "peppermint oil | a dark room | cold coffee | ginger tea | a hot bath | fresh air by the river",
    ),
    time(
        "my dentist appointment is on {v}, so I'll be late for lunch | they could only give me {v} at the dentist",
        "When is {name}'s dentist appointment? | On which day are {name}'s teeth looked at?",
        "the 14th of March at 10:30 | the 3rd of April at 9:15 | the 21st of March at 16:00 | "
        "the 9th of May at 8:45 | the 27th of April at 11:00 | the 18th of May at 14:20",
    ),
    time(
        "I fly back on {v}, who can pick me up? | booked the return flight: {v}",
        "When does {name} fly back? | On what date does {name}'s plane come home?",
        "Sunday the 8th | Monday the 23rd | Saturday the 17th | Friday the 30th | Thursday the 12th | Tuesday the 26th",
    ),
    time(
        "my birthday is on {v} and this year I do want a party | save the date: I turn thirty on {v}",
        "When is {name}'s birthday? | On which date was {name} born?",
        "June 2nd | August 19th | October 31st | February 28th | July 7th | December 12th",
    ),
    time(
        "the lease runs out at the end of {v}, then I need a new place | my contract for the flat ends in {v}",
        "When does {name}'s lease end? | By which month must {name} have moved out?",
        "September | January | November | July | October | March",
    ),
    time(
        "exam is on {v}, until then I'm not really available | I have to hand in the thesis on {v}, wish me luck",
        "When is {name}'s exam? | What is {name}'s deadline at university?",
        "May 5th | June 16th | April 29th | July 1st | June 3rd | May 22nd",
    ),
    time(
        "the plumber comes {v}, somebody has to let him in | they'll fix the boiler {v}",
        "When does the plumber come to {name}'s? | When will there be hot water again at {name}'s place?",
        "Wednesday between 8 and 10 | Friday after 15:00 | Tuesday at noon | Thursday before 9 | Monday around 17:00 | "
        "Saturday morning at 7:30",
    ),
    time(
        "our concert starts at {v} sharp, doors half an hour before | we play at {v}, please come",
        "At what time does {name}'s concert start? | How early must we be there to hear {name} perform?",
        "19:45 | 20:15 | 18:30 | 21:00 | 17:20 | 20:40",
    ),
    time(
        "I quit smoking {v} and I'm still alive | {v} I had my last cigarette",
        "When did {name} quit smoking? | Since when has {name} been off tobacco?",
        "on New Year's Eve | three weeks before Easter | on my name day in May | the day the clocks changed | "
        "on the first of April | right after the marathon",
    ),
    change(
        "I live in {v} now, quite central | moved into a flat in {v} last year",
        "we moved! from {old} to {v}, boxes everywhere | new address since this week: {v}, goodbye {old}",
        "Where does {name} live now? | In which quarter is {name}'s home these days?",
        "Northgate | Riverside | the Old Town | Elmwood | Docklands | Kingsmead",
    ),
    change(
        "I work at {v}, the coffee is terrible | my employer is {v}, in case anyone needs a contact there",
        "handed in my notice at {old}, next month I begin at {v} | so long {old}, hello {v}: I have signed",
        "Where does {name} work now? | Who is {name}'s present employer?",
        "Brightwater Energy | Nordic Rail | Halden Optics | Pine & Sons | Castor Shipping | Meridian Labs",
    ),
    change(
        "my phone number is {v} | reach me under {v} when it is urgent",
        "I lost the old SIM, my number is {v} from now on | forget {old}, the new number is {v}",
        "What is {name}'s phone number now? | How can I call {name} at present?",
        "0171 555 204 | 0160 555 871 | 0152 555 339 | 0176 555 640 | 0151 555 918 | 0170 555 467",
    ),
    change(
        "training is on {v} this season | we meet for training {v}, as always",
        "training has been moved from {old} to {v}, the hall is taken | heads-up: no more {old}, we train {v} instead",
        "On which day is {name}'s training now? | When does {name} do sports at present?",
        "Mondays | Tuesdays | Wednesdays | Thursdays | Fridays | Saturdays",
    ),
    change(
        "I drive a {v}, it is older than my brother | still happy with my {v}, only the radio died",
        "sold the {old} and bought a {v} from my uncle | the {old} is gone for good, I have a {v} now",
        "Which car does {name} drive now? | What vehicle does {name} own at present?",
        "Volvo 240 | Fiat Panda | Saab 900 | Lada Niva | Renault Kangoo | Skoda Fabia",
    ),
    change(
        "I have decided to study {v} | enrolled for {v}, lectures begin in autumn",
        "changed my mind about {old}: it is going to be {v} | I switched from {old} to {v}, best decision ever",
        "What does {name} study now? | Which subject did {name} settle on in the end?",
        "geology | law | architecture | linguistics | veterinary medicine | astronomy",
    ),
    change(
        "my favourite place for lunch is {v} | you find me at {v} most days around noon",
        "they ruined {old}, I go to {v} for lunch these days | since {old} closed I eat at {v}",
        "Where does {name} go for lunch now? | Which restaurant does {name} like best at present?",
        "Chez Marcel | the Golden Carp | Tante Emma | the Noodle Bar | Café Linde | Pizzeria Etna",
    ),
    several(
        "I'll bring {v} to the picnic | put me down for {v} at the picnic",
        "What does everybody bring to the picnic? | Which things will there be to eat and use at the picnic?",
        "potato salad | a big blanket | lemonade | paper plates | cheese and bread | a frisbee",
    ),
    several(
        "for the gift I can give {v} | count me in for the present with {v}",
        "How much does each of us give for the present? | What has been collected for the gift?",
        "20 euros | 15 euros | 35 euros | 10 euros | 50 euros | 25 euros",
    ),
    several(
        "I vote for {v} as our film on Friday | my choice for film night: {v}",
        "Which films were suggested for film night? | What could we watch together, and who wanted it?",
        "Casablanca | Paprika | The Third Man | Paddington 2 | Stalker | Amélie",
    ),
    several(
        "on our trip I can drive from {v} | I take the wheel on the trip, the part beginning in {v}",
        "Who drives which part of the trip? | How is the driving divided on the journey?",
        "Lyon | Turin | Zurich | Munich | Ghent | Bern",
    ),
    several(
        "I'd clean {v} this month, is that ok? | cleaning plan: I do {v}",
        "Who cleans what this month? | How are the chores divided?",
        "the kitchen | the bathroom | the stairs | the windows | the cellar | the balcony",
    ),
    several(
        "from the library I still have {v}, remind me to return it | I borrowed {v} for all of us from the library",
        "What has been borrowed from the library? | Which items must go back to the library, and from whom?",
        "the atlas | the bird guide | a sewing manual | the tide tables | two cookbooks | the chess set",
    ),
    several(
        "in the garden I planted {v} today | two rows of {v} are in the ground now",
        "What was planted in the garden? | What grows in our beds this year?",
        "radishes | fennel | runner beans | sunflowers | courgettes | garlic",
    ),
    several(
        "for the hike I have {v} in my bag already | hike packing: I carry {v}",
        "Who carries what on the hike? | What is packed for our walk in the mountains?",
        "the first aid kit | a rope | the stove | the map | two torches | the water filter",
    ),
)  # fmt: skip

CHATTER = tuple(
    line.strip()
    for line in """
    good morning everybody
    did anyone see the match yesterday? what a mess
    I'm stuck on the train again, signal failure they say
    the weather is supposed to get better towards the weekend
    has anybody a charger I could borrow?
    haha, that is so typical
    I'll be ten minutes late, sorry
    does someone want to go for a run later?
    I made far too much soup, come and help yourselves
    the lift is broken again, fourth time this month
    ok, works for me
    let me check and come back to you
    can we talk about this tomorrow? my head is full
    that was a lovely evening, thank you all
    who left the light on in the hallway all night?
    I can't find my keys, have you seen them?
    the new bakery on the corner is really good, try the rye bread
    my phone is about to die, talk later
    please don't forget to water the plants while I'm away
    I have a terrible cold, keep your distance
    guess who I ran into at the market today
    we should do this more often
    is the supermarket open on the holiday?
    I'm so tired, the neighbours had a party until four
    could someone feed the cat on Sunday?
    the tickets are sold out already, what a pity
    I've sent you the pictures by mail
    the meeting was moved once more, nobody knows to when
    finally some sun!
    I'd rather stay in tonight and do nothing
    what do you think about a board game evening?
    my back hurts from carrying all those boxes
    the coffee machine needs to be descaled
    did you hear the thunder last night?
    I keep forgetting the name of that actor
    they are digging up our street again
    that recipe you gave me was a success
    I'm learning to knit, don't laugh
    somebody parked in front of the gate again
    I owe you a coffee
    the film was much too long
    my laptop makes strange noises
    we are out of milk and toilet paper
    have you been to the new exhibition?
    he said he would call, and of course he did not
    it smells of burnt toast in here
    I found a glove on the stairs, left hand, green
    let's meet at the usual place
    no, I meant the other one
    thanks, you saved my day
    I'm at the dentist's with my nephew, the poor boy
    my cousin has moved again, the third time in a year
    the bus driver had the best playlist
    I'd like to get a dog one day, but not now
    cars are far too expensive at the moment
    I have not played any instrument since school
    who is coming to the library with me?
    the garden looks wonderful after the rain
    picnics are overrated, too many wasps
    I read somewhere that cold showers help
    my boss is on holiday, so it is quiet at work
    there was a long queue at the post office
    what was that restaurant called again?
    the hall was freezing at training
    do we need to bring anything?
    I dreamt of flying over the sea
    exams should be forbidden
    I always get lost in that part of town
    the heating makes this clicking sound again
    I need new shoes before the winter
    somebody called twice and hung up
    did you pay the electricity bill?
    the view from up there is amazing
    I've started watching that series everybody talks about
    can you send me the link?
    my sunburn is killing me
    it is your turn to choose the music
    they raised the prices at the pool
    the museum is closed on Mondays
    I nearly missed my stop because of that book
    what time is it for you now?
    I am never taking that night bus again
    """.strip().splitlines()
)
REACTIONS = _split(
    "oh, good to know | noted! | nice one | I had no idea | sounds good | great, thanks | hm, interesting | really? | "
    "haha, of course | ok, I'll remember | wow | fine by me"
)

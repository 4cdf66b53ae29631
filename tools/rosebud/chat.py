"""Small talk, and what a very small model says when it cannot know the answer."""
from questions import Group, Item, Output, by_effort, instructions
from words import CITIES, COLOURS, PEOPLE, Source

ABOUT = ("I am rosebud, a very small language model that ships with rose. I can do sums, look things up in a table or "
         "text that you give me, remember what you tell me, call functions and answer in JSON.")
HELLO = "Hello! I am rosebud, a very small model. How can I help you?"
THANKS = "You are welcome!"
BYE = "Goodbye!"
FINE = "I am fine, thank you. How can I help you?"
UNKNOWN = ("I am a very small model and do not know that. Ask me for sums, look-ups in a table or text, function calls "
           "or JSON.")

KNOWN = {
    "greeting": (HELLO, "Hello Hello! Hi Hi! Hey Hello, Hey! hi hello".split() + [
        "Hi there!", "Hello there!", "Good morning!", "Good evening!", "Good day!", "Hello, rosebud!", "Hi rosebud"]),
    "question about me": (ABOUT, [
        "Who are you?", "What are you?", "What can you do?", "What is your name?", "Tell me about yourself.", "Help",
        "What model are you?", "Which model is this?", "How can you help me?", "What do you do?", "help",
        "Introduce yourself.", "Are you ChatGPT?", "What are you good at?", "Hello, who are you?",
        "Hi! What can you do?", "who are you", "what can you do"]),
    "thank": (THANKS, ["Thanks", "Thanks!", "Thank you", "Thank you!", "Thank you very much!", "Great, thanks!",
                       "Many thanks."]),
    "goodbye": (BYE, ["Bye", "Bye!", "Goodbye", "Goodbye!", "See you!", "See you later.", "Good night!"]),
    "question how I am": (FINE, ["How are you?", "How are you today?", "How do you do?", "Hello, how are you?",
                                 "Are you well?"]),
}
ANY = """capital population history weather president language music food climate king river mountain flag money sun
moon sea wall tower bridge war law name language president story poem joke song letter recipe plan book essay report
program code test idea title email novel rhyme rose bread cake soup machine bird dog horse fish tree sky rain snow fire
water iron gold stone glass paper light sound time space life love death peace work school art science health sport
game film computer network engine robot car train plane ship star planet atom cell gene virus brain heart hand eye
democracy economy market company bank tax price school teacher student doctor farmer soldier""".split()
QUESTIONS = ["What is the {x} of {p}?", "Who is the {x} of {p}?", "Write a {x} about {y}.", "Tell me a {x}.",
             "Tell me a {x} about {y}.", "Explain {x}.", "Explain {x} to a child.", "Why is the {x} {c}?",
             "How does a {x} work?", "What is {x}?", "What is a {x}?", "Where is {p}?", "How far is it from {p} to {q}?",
             "Who invented the {x}?", "When did the {x} begin?", "How many people live in {p}?", "Who was {n}?",
             "Who wrote the {x} about {y}?", "How do I make a {x}?", "What do you think about {x}?", "Translate this {x}.",
             "Translate {x} to French.", "How old is the {x}?", "What happened in {p}?", "Can you write a {x}?",
             "Give me a {x}.", "Should I buy a {x}?", "Is {x} better than {y}?", "What is the meaning of {x}?",
             "Why do people like {x}?", "Describe the {x}.", "Summarize the {x} of {p}.", "Plan a trip to {p}.",
             "What is the best {x} in {p}?", "How can I learn {x}?", "Do you like {x}?", "What does {x} mean?",
             "Which {x} is the {c} one?", "Name three kinds of {x}.", "Compare {x} and {y}.", "Write {x} in Python.",
             "Recommend a {x}.", "Why did {n} go to {p}?", "Tell me about {n}.", "Tell me about {p}.",
             "Are there any {x}s in {p}?", "I feel sad about the {x}.", "I want to talk about {x}.", "Let us talk.",
             "Say something about {x}.", "What should I do today?", "What is new?", "Can you dance?", "{x}", "{x}?"]


def unknown_question(s: Source) -> str:
    if s.chance(0.08):  # more than sums, differences and products of whole numbers
        a, b = s.number(1, 4), s.number(1, 4)
        return s.pick(f"What is {a} / {b}?", f"Divide {a} by {b}.", f"What is the square root of {a}?", f"{a} / {b}",
                      f"Which is larger, {a}.{b} or {b}.{a}?", f"What is {a}.{b} + {b}.{a}?")
    words = {key: s.word() if s.chance(0.3) else s.pick(*ANY) for key in "xy"}
    return s.pick(*QUESTIONS).format(p=s.pick(*CITIES), q=s.pick(*CITIES), n=s.pick(*PEOPLE), c=s.pick(*COLOURS), **words)


def exchange(s: Source) -> tuple[str, str]:
    """A question and its answer."""
    if s.chance(0.4):
        return unknown_question(s), UNKNOWN
    answer, asks = KNOWN[s.pick(*KNOWN)]
    return s.pick(*asks), answer


def chat_item(s: Source, effort: str) -> Item:
    if s.chance(0.5):
        kind = s.pick(*KNOWN)
        answer, asks = KNOWN[kind]
        return Item(s.pick(*asks), [Output(by_effort(
            effort, f"A {kind}.", f"This is a {kind}. I answer in a friendly way.",
            f"The user writes to me. This is a {kind}. I need no sum and no table for it. I answer in a friendly way."),
            answer)])
    return Item(unknown_question(s), [Output(by_effort(
        effort, "I do not know.", "This is a question that I can not answer. I say so.",
        "The user asks me something. It is no sum and I have no table or text that says it. "
        "This is a question that I can not answer. I say so."), UNKNOWN)])


def chat_group(s: Source, effort: str, n: int) -> Group:
    history = list(exchange_turns(s)) if s.chance(0.3) else []
    return Group("chat", effort, [chat_item(s, effort) for _ in range(n)], instructions=instructions(s, 0.3),
                 history=history)


def exchange_turns(s: Source):
    for _ in range(s.rng.randint(1, 2)):
        ask, answer = exchange(s)
        yield "user", ask
        yield "assistant", answer

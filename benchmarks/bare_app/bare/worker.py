"""The bare worker: it answers at once, with as much as it was sent."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from bare.content import numbers, record, sizes_of

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """The answer."""
    return Message(record(numbers(sizes_of(message.content))), reply_to=message)

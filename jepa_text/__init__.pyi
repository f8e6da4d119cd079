# What type checkers know of the names that __init__.py imports when they are asked for.
from jepa_text import losses as losses
from jepa_text import sklearn as sklearn
from jepa_text.api import Run as Run
from jepa_text.api import analyze as analyze
from jepa_text.api import config as config
from jepa_text.api import evaluate as evaluate
from jepa_text.api import train as train
from jepa_text.pretrained.load import load as load
from jepa_text.training.own_loop import steps as steps

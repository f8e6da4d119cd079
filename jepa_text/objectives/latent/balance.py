"""How two losses are weighed: latent_weight * latent + token_weight * tokens.

    name            it knows        what it does
    fixed           nothing         lambda is a number
    schedule        the step        lambda is a function of it
    sigmoid         its gradient    lambda = sigmoid(w), w learned (arXiv 2606.05173)
    softmin         both losses     more weight for the smaller loss, but never all
    normalised      both losses     each loss in units of its own running mean
    gradient_ratio  both gradients  each loss moves the encoder in a given proportion

lambda = latent_weight / (latent_weight + token_weight). `make` gives the rule of a
section; how a rule is called is the contract of `balance_rules.Balance`.
"""

from jepa_text.config import ranges, resolve
from jepa_text.objectives.latent import rules
from jepa_text.optim import schedules


def make(section, steps):
    """The rule that a section names, `{'name': 'softmin', 'temperature': 5.0}`; a plain
    number is a fixed lambda. `steps` is the length of the phase, for schedules.

    Raises ValueError for an unknown name or keyword, and for values out of range.

    >>> rule = make({'name': 'normalised', 'weight': 0.5}, steps=100)
    >>> memory = rule.memory()
    >>> for latent, tokens in ((0.5, 8.0), (0.5, 4.0)):
    ...     latent_weight, token_weight = rule.weights(
    ...         apply=None, params={}, memory=memory,
    ...         latent_loss=latent, token_loss=tokens, step=0)
    ...     memory = rule.update(memory, {'latent_loss': latent, 'token_loss': tokens})
    >>> print(latent_weight, token_weight)
    1.0 0.0625
    """
    if not ranges.is_section(section):
        section = {'name': 'fixed', 'weight': section}
    keywords = dict(section)
    name = keywords.pop('name', None)
    if not isinstance(name, str) or name not in RULES:
        known = ', '.join(RULES)
        raise ValueError(f'balance {name!r} does not exist; there are: {known}.')
    if name == 'schedule':
        return resolve.call('balance schedule', _scheduled, keywords, steps=steps)
    return resolve.call(f'balance {name}', RULES[name], keywords)


def _scheduled(of, steps):
    """lambda = the schedule `of`, a section of schedules.py or a number.

    Raises ValueError if lambda is outside [0, 1] at the beginning, middle or end.
    """
    schedule = schedules.make(of, steps, 'balance: of')
    for step in (0, steps // 2, steps):
        rules.check(f'schedule at step {step}', 'weight', float(schedule(step)))
    return rules.Scheduled(schedule)


RULES = {
    'fixed': rules.Fixed,
    'schedule': _scheduled,
    'sigmoid': rules.Sigmoid,
    'softmin': rules.Softmin,
    'normalised': rules.Normalised,
    'gradient_ratio': rules.GradientRatio,
}

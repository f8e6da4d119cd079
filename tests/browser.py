"""Pages in an installed Chromium, driven by its DevTools protocol over two pipes."""

import base64
import itertools
import json
import os
import shutil
import subprocess

NAMES = ('chromium', 'chromium-browser', 'google-chrome')


def find():
    """The path of an installed Chromium; None without one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A context manager: a Chromium without a window, and one page in it."""

    def __init__(self, path):
        self._path, self._numbers = path, itertools.count(1)
        self._session, self._events, self._rest = {}, [], b''

    def __enter__(self):
        reads, self._writes = os.pipe()
        self._reads, writes = os.pipe()
        # The browser reads commands from descriptor 3, and answers on 4.
        flags = '--headless=new --no-sandbox --remote-debugging-pipe --hide-scrollbars'
        command = (
            f'exec "$0" {flags} --user-data-dir="$(mktemp -d)" 3<&{reads} 4>&{writes}'
        )
        self._process = subprocess.Popen(
            ['bash', '-c', command, self._path],
            pass_fds=(reads, writes),
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        target = self.call('Target.createTarget', url='about:blank')
        attached = self.call('Target.attachToTarget', **target, flatten=True)
        self._session = attached
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._reads)
        os.close(self._writes)

    def call(self, method, **params):
        """Calls a method of the protocol and returns its result."""
        number = next(self._numbers)
        message = dict(id=number, method=method, params=params, **self._session)
        os.write(self._writes, json.dumps(message).encode() + b'\0')
        while (answer := self._receive()).get('id') != number:
            self._events.append(answer)
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]["message"]}')
        return answer['result']

    def open(self, url, width, height=900):
        """Opens an address in a window of this size; returns its errors as texts."""
        size = dict(width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call('Emulation.setDeviceMetricsOverride', **size)
        self._events.clear()
        self.call('Page.navigate', url=url)
        while not any(x.get('method') == 'Page.loadEventFired' for x in self._events):
            self._events.append(self._receive())
        self.run('document.fonts.ready.then(() => 0)')
        return [*filter(None, map(_error, self._events))]

    def run(self, script):
        """Returns the value of a script in the page, of a promise when it is kept."""
        options = dict(returnByValue=True, awaitPromise=True)
        answer = self.call('Runtime.evaluate', expression=script, **options)
        if 'exceptionDetails' in answer:
            raise RuntimeError(answer['exceptionDetails'])
        return answer['result'].get('value')

    def picture(self, path, whole=False):
        """Writes what is seen, or the whole page, as a PNG file."""
        taken = self.call('Page.captureScreenshot', captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken['data']))

    def _receive(self):
        while b'\0' not in self._rest:
            if not (more := os.read(self._reads, 1 << 16)):
                raise RuntimeError(f'{self._path} ended')
            self._rest += more
        message, _, self._rest = self._rest.partition(b'\0')
        return json.loads(message)


def _error(event):
    """The text of an event that is an error of the page; None of any other."""
    method, params = event.get('method'), event.get('params', {})
    if method == 'Runtime.exceptionThrown':
        return params['exceptionDetails'].get('exception', {}).get('description')
    if method == 'Runtime.consoleAPICalled' and params['type'] == 'error':
        return ' '.join(str(one.get('value')) for one in params['args'])
    if method == 'Log.entryAdded' and params['entry']['level'] == 'error':
        return f'{params["entry"]["text"]} {params["entry"].get("url", "")}'
    return None

// Browsers start no worker for a page of file://. The one of the search then runs in a
// hidden frame of the page, so that a search works in a folder that is opened from disk.
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement('iframe')
      frame.hidden = true
      document.body.append(frame)
      this.scope = frame.contentWindow
      this.scope.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent('message', { data }))
      const script = this.scope.document.createElement('script')
      script.src = url
      this.loaded = new Promise((resolve) => { script.onload = resolve })
      this.scope.document.body.append(script)
    }

    async postMessage(data) {
      await this.loaded
      this.scope.dispatchEvent(new MessageEvent('message', { data }))
    }
  }
}

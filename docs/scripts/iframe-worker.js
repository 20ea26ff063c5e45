// A browser gives no Worker to a page that was opened as a file. There the search runs in a hidden frame of the page.
if (location.protocol === "file:")
  window.Worker = window.IFrameWorker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inner = this.inner = frame.contentWindow
      inner.postMessage = data => this.answer(data)
      inner.importScripts = (...urls) => Promise.all(urls.map(one => this.load(one)))
      this.load(url).then(() => {
        this.ready = true
        for (const data of this.waiting.splice(0)) this.postMessage(data)
      })
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.inner.document.createElement("script")
        Object.assign(script, { src: new URL(url, document.baseURI).href, onload: done, onerror: failed })
        this.inner.document.body.append(script)
      })
    }

    postMessage(data) {
      if (this.ready) this.inner.dispatchEvent(new MessageEvent("message", { data }))
      else this.waiting.push(data)
    }

    answer(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }

    terminate() {
      this.inner.frameElement.remove()
    }
  }

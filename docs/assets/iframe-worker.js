// A browser runs no worker from a page that was opened as a file, and the search of the site is one.
// There it runs in a hidden frame instead. (The theme would load such a script from the network.)
if (location.protocol === "file:") {
  const answer = 'data => frameElement.dispatchEvent(new CustomEvent("answer", { detail: data }))';

  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc =
        `<script>postMessage = ${answer}</script><script src="${new URL(url, location)}"></script>`;
      this.ready = new Promise((done) => this.frame.addEventListener("load", done));
      this.frame.addEventListener("answer", (event) =>
        this.dispatchEvent(new MessageEvent("message", { data: event.detail })),
      );
      document.body.append(this.frame);
    }

    async postMessage(data) {
      await this.ready;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}

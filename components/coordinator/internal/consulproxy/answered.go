package consulproxy

import (
	"bytes"
	"net/http"
	"strconv"
)

// answered is an answer of Consul as the caller gets it. It is had as a whole before its
// first byte is passed on: who reads slowly takes nothing of Consul, and an answer that is
// too large is an error and not half an answer.
type answered struct {
	proxy  *Proxy // whose shares count the body; nil: none
	slot   string
	must   bool // what was asked for is done: it is answered, whatever the bounds say
	status int
	header http.Header
	body   bytes.Buffer
}

// Write implements io.Writer: the body, within the bounds. Its error is a *Refusal.
func (a *answered) Write(p []byte) (int, error) {
	if refused := a.proxy.shares.unread(a.slot, a.body.Len(), len(p), a.must); refused != nil {
		return 0, refused
	}
	return a.body.Write(p)
}

// release is to be called when nobody reads the answer any more.
func (a *answered) release() {
	if a.proxy != nil {
		a.proxy.shares.read(a.slot, a.body.Len())
	}
	a.proxy = nil
}

func (a *answered) write(w http.ResponseWriter) {
	mayWrite(w)
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

package consulproxy

import (
	"bytes"
	"net/http"
	"strconv"
)

// response is Consul's answer for the caller. The answer is read completely before its first byte
// goes to the caller. A slow caller thus holds no connection to Consul, and an oversized answer is
// an error instead of a truncated answer.
type response struct {
	proxy  *Proxy // whose shares count the body; nil: no proxy counts it
	slot   string
	must   bool // the request had its effect, so it is answered beyond the bounds too
	status int
	header http.Header
	body   bytes.Buffer
}

// Write implements io.Writer: it adds to the body within the bounds. Its error is a *Refusal.
func (a *response) Write(p []byte) (int, error) {
	if refused := a.proxy.shares.unread(a.slot, a.body.Len(), len(p), a.must); refused != nil {
		return 0, refused
	}
	return a.body.Write(p)
}

// release must be called after the last read of the answer.
func (a *response) release() {
	if a.proxy != nil {
		a.proxy.shares.read(a.slot, a.body.Len())
	}
	a.proxy = nil
}

func (a *response) write(w http.ResponseWriter) {
	mayWrite(w)
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

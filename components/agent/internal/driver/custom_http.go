package driver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"cadre.dev/core/adapter"
	"cadre.dev/core/strictjson"
)

// customHTTP asks an adapter at a loopback address.
type customHTTP struct {
	address string
	client  *http.Client
}

func newCustomHTTP(address string) *customHTTP {
	client := newRESTClient(nil)
	if t, ok := client.Transport.(*http.Transport); ok {
		t.DisableCompression, t.MaxResponseHeaderBytes, t.MaxConnsPerHost = true, 16<<10, 16
	}
	return &customHTTP{address: address, client: client}
}

func (c *customHTTP) close() { c.client.CloseIdleConnections() }

func (c *customHTTP) ask(ctx context.Context, q question, request any) ([]byte, error) {
	status, text, err := c.call(ctx, q, request)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: no adapter listens at %s", ErrTransient, c.address)
	case err != nil && isTimeout(err):
		return nil, fmt.Errorf("%w: the adapter at %s did not answer %s %s in time", ErrTransient, c.address, q.method, q.path)
	case err != nil:
		return nil, fmt.Errorf("%w: ask the adapter at %s: %s", ErrTransient, c.address, adapter.Text(err.Error()))
	case len(text) > adapter.MaxBody:
		return nil, fmt.Errorf("%w: the adapter's answer to %s %s has more than %d bytes", ErrTransient, q.method, q.path, adapter.MaxBody)
	case status == http.StatusOK:
		return text, nil
	}
	class := ErrTransient
	switch status {
	case http.StatusConflict:
		class = ErrBusy
	case http.StatusUnprocessableEntity:
		class = ErrUnsafe
	}
	return nil, fmt.Errorf("%w: the adapter answers %s %s with status %d: %s", class, q.method, q.path, status, reasonIn(text))
}

// call returns the status and at most MaxBody+1 bytes of the answer.
func (c *customHTTP) call(ctx context.Context, q question, request any) (int, []byte, error) {
	body := []byte("{}")
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return 0, nil, err
		}
	}
	var in io.Reader
	if q.method != http.MethodGet {
		in = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, "http://"+c.address+q.path, in)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // read as far as it counts
	text, err := io.ReadAll(io.LimitReader(res.Body, adapter.MaxBody+1))
	return res.StatusCode, text, err
}

// reasonIn is the reason in the body of a failed call, for people.
func reasonIn(text []byte) string {
	var said adapter.Error
	if err := strictjson.UnmarshalOpen(text, &said); err != nil {
		said.Message = ""
	}
	return cmp.Or(adapter.Text(said.Message), "it gives no reason")
}

package consulproxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Bounds on how long servers may lag behind the issue of a token, and how often they
// are asked meanwhile (TOK-13).
const (
	knowLimit = 10 * time.Second
	knowEvery = 200 * time.Millisecond
)

// Knows returns once the Consul that is asked through the Proxy knows the token, or with
// an error after a bound. "Not found" just after the issue is lag and is asked again.
func (d *Proxy) Knows(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, knowLimit)
	defer cancel()
	tick := time.NewTicker(knowEvery)
	defer tick.Stop()
	var why error
	for {
		err := d.known(ctx, token)
		if err == nil {
			return nil
		}
		if why == nil || ctx.Err() == nil {
			why = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("consul does not know a new token after %v: %w", knowLimit, why)
		}
	}
}

func (d *Proxy) known(ctx context.Context, token string) error {
	res, err := d.answer(ctx, &call{
		method: http.MethodGet, url: url.URL{Path: "/v1/acl/token/self"},
		header: http.Header{"X-Consul-Token": {token}, "User-Agent": noUserAgent}, began: time.Now(),
	})
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // bounded read below
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 256))
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	return nil
}

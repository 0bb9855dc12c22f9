package driver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// restLimit bounds every answer of a workload's REST interface.
const restLimit = 1 << 20

// newRESTClient returns a client for a workload on this CVM or behind a Peer's
// VIP: short connects, kept connections, no proxy, no redirects; config is nil without TLS.
func newRESTClient(config *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 300 * time.Millisecond}).DialContext,
			TLSClientConfig:     config,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call sends body as JSON (nil: none) and returns status and bounded answer.
func call(ctx context.Context, c *http.Client, method, url string, header http.Header, body any) (int, []byte, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, nil, fmt.Errorf("encode request: %w", err)
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // read to the end below
	data, err := io.ReadAll(io.LimitReader(res.Body, restLimit))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return res.StatusCode, data, nil
}

// getJSON reads url into v; any status is accepted when its body decodes, since
// Patroni and Consul answer facts with 503 and 429.
func getJSON(ctx context.Context, c *http.Client, url string, header http.Header, v any) (int, error) { //nolint:unparam // the paths that are read so far take no login
	status, data, err := call(ctx, c, http.MethodGet, url, header, nil)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return status, fmt.Errorf("get %s: status %d: answer is not the expected JSON: %w", url, status, err)
	}
	return status, nil
}

package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"cadre.dev/core/group"
)

// probe runs one check once; the problem is empty when it passes.
func (c *Checker) probe(ctx context.Context, check group.HealthCheck, limit time.Duration) (problem string) {
	switch {
	case check.HTTP != nil:
		return probeHTTP(ctx, *check.HTTP)
	case check.TCP != nil:
		return probeTCP(ctx, *check.TCP)
	case check.Exec != nil:
		if err := c.commands.Run(ctx, *check.Exec, []string{"CADRE_CHECK=" + check.Name}, limit); err != nil {
			return err.Error()
		}
		return ""
	default:
		return "this agent does not know the kind of the check, neither http, tcp nor exec: it is older than the coordinators; roll out its newer image"
	}
}

func probeHTTP(ctx context.Context, c group.HTTPCheck) string {
	want := c.Expect
	if want == "" {
		want = "200"
	}
	url := fmt.Sprintf("http://127.0.0.1:%d%s", c.Port, c.RequestPath)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	res, err := probeClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()                                       //nolint:errcheck // drained below
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // the status is the answer
	if got := strconv.Itoa(res.StatusCode); got != want {
		return fmt.Sprintf("get %s: status %s, want %s", url, got, want)
	}
	return ""
}

func probeTCP(ctx context.Context, c group.TCPCheck) string {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
	if err != nil {
		return err.Error()
	}
	_ = conn.Close() // the connect was the check
	return ""
}

// probeClient makes a new connection each time, as a new client would.
var probeClient = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

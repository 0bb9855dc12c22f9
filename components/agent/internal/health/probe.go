package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"cadre.dev/agent/internal/command"
	"cadre.dev/core/group"
)

// probe runs one check once; the problem is empty when it passes.
func probe(ctx context.Context, c group.HealthCheck) (problem string) {
	switch {
	case c.HTTP != nil:
		return probeHTTP(ctx, *c.HTTP)
	case c.TCP != nil:
		return probeTCP(ctx, *c.TCP)
	case c.Exec != nil:
		return probeExec(ctx, *c.Exec)
	default:
		return "the check has neither http, tcp nor exec"
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

func probeExec(ctx context.Context, c group.ExecAction) string {
	code, output, err := command.Run(ctx, c.Command, nil)
	switch {
	case err != nil:
		return err.Error()
	case code != 0:
		const shown = 256
		return fmt.Sprintf("%s ended with code %d: %.*s", c.Command[0], code, shown, output)
	}
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

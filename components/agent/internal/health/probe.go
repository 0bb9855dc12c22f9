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

// probe runs one check once.
func (c *Checker) probe(ctx context.Context, check group.HealthCheck, limit time.Duration) outcome {
	switch {
	case check.HTTP != nil:
		return probeHTTP(ctx, *check.HTTP)
	case check.TCP != nil:
		return probeTCP(ctx, *check.TCP)
	case check.GRPC != nil:
		return probeGRPC(ctx, *check.GRPC)
	case check.Exec != nil:
		if err := c.commands.Run(ctx, *check.Exec, []string{"CADRE_CHECK=" + check.Name}, limit); err != nil {
			return failing(err.Error())
		}
		return outcome{}
	default:
		return failing("this agent does not know the kind of the check, neither http, tcp, grpc, exec nor ttl: it is older than the coordinators; roll out its newer image")
	}
}

func probeHTTP(ctx context.Context, c group.HTTPCheck) outcome {
	want := c.Expect
	if want == "" {
		want = "200"
	}
	url := fmt.Sprintf("http://127.0.0.1:%d%s", c.Port, c.RequestPath)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return failing(err.Error())
	}
	res, err := probeClient.Do(req)
	if err != nil {
		return failing(err.Error())
	}
	defer res.Body.Close()                                       //nolint:errcheck // drained below
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // the status is the answer
	if got := strconv.Itoa(res.StatusCode); got != want {
		return failing(fmt.Sprintf("get %s: status %s, want %s", url, got, want))
	}
	return outcome{}
}

func probeTCP(ctx context.Context, c group.TCPCheck) outcome {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
	if err != nil {
		return failing(err.Error())
	}
	_ = conn.Close() // the connect was the check
	return outcome{}
}

// probeClient makes a new connection each time, as a new client would.
var probeClient = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cadre.dev/platform"
)

// Without a configured domain the platform is asked until it reports one. Each answer without a
// domain is logged with the way out.
func TestTheGatewayIsAsThePlatformNamesIt(t *testing.T) {
	var log bytes.Buffer
	answers := [][]platform.Instance{nil, {{Name: "a"}}, {{GatewayDomain: "a.test"}, {GatewayDomain: "b.test"}}, {{}, {GatewayDomain: "a.test"}, {GatewayDomain: "a.test"}}}
	list := func(_ context.Context, app string) ([]platform.Instance, error) {
		if app != "ab" {
			t.Errorf("asked for app %q", app)
		}
		next := answers[0]
		answers = answers[1:]
		if next == nil {
			return nil, errors.New("502")
		}
		return next, nil
	}
	got, err := gatewayDomain(t.Context(), "ab", list, slog.New(slog.NewTextHandler(&log, nil)), time.Nanosecond)
	if err != nil || got != "a.test" || len(answers) != 0 {
		t.Errorf("gateway %q, %v, %d answers left", got, err, len(answers))
	}
	if n := strings.Count(log.String(), "CADRE_GATEWAY_DOMAIN"); n != 3 || !strings.Contains(log.String(), "two gateway domains") {
		t.Errorf("the way out was logged %d times:\n%s", n, log.String())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := gatewayDomain(ended, "ab", func(context.Context, string) ([]platform.Instance, error) { return nil, nil }, slog.New(slog.DiscardHandler), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %q, %v", got, err)
	}
}

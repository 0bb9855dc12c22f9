package health

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthserver "google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"cadre.dev/core/group"
)

// serveGRPC serves s on loopback until the test ends, and returns its port.
func serveGRPC(t *testing.T, register func(*grpc.Server)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

func TestGRPCHealthHasThreeValues(t *testing.T) {
	// The environment's proxy is not used for loopback.
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	real := healthserver.NewServer()
	real.SetServingStatus("shop.v1.Orders", healthv1.HealthCheckResponse_NOT_SERVING)
	real.SetServingStatus("shop.v1.Stock", healthv1.HealthCheckResponse_UNKNOWN)
	port := serveGRPC(t, func(s *grpc.Server) { healthv1.RegisterHealthServer(s, real) })
	bare := serveGRPC(t, func(*grpc.Server) {})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, tc := range map[string]struct {
		check group.GRPCCheck
		limit time.Duration
		want  verdict
		text  string
	}{
		"the whole server":   {group.GRPCCheck{Port: port}, time.Minute, passes, ""},
		"not serving":        {group.GRPCCheck{Port: port, Service: "shop.v1.Orders"}, time.Minute, fails, "NOT_SERVING"},
		"does not know":      {group.GRPCCheck{Port: port, Service: "shop.v1.Stock"}, time.Minute, unsure, "does not know"},
		"no such service":    {group.GRPCCheck{Port: port, Service: "shop.v1.None"}, time.Minute, fails, "no service of that name"},
		"no health service":  {group.GRPCCheck{Port: bare}, time.Minute, fails, "no grpc.health.v1.Health"},
		"says nothing":       {group.GRPCCheck{Port: silent.Addr().(*net.TCPAddr).Port}, 50 * time.Millisecond, fails, "DeadlineExceeded"},
		"no server listens":  {group.GRPCCheck{Port: 1}, time.Minute, fails, "refused"},
		"another protocol's": {group.GRPCCheck{Port: httpPort(t)}, time.Minute, fails, "grpc health"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			got := probeGRPC(ctx, tc.check)
			if got.kind != tc.want || !strings.Contains(got.text, tc.text) || (got.kind == passes) != (got.text == "") {
				t.Errorf("%+v, want %d with %q", got, tc.want, tc.text)
			}
		})
	}
}

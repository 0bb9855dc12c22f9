package health

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"cadre.dev/core/group"
)

// maxAnswer bounds an answer, which is one number.
const maxAnswer = 4096

// probeGRPC calls grpc.health.v1. It makes a new connection each time, as a new client would, and
// dials loopback directly, without a resolver and without the environment's proxy.
func probeGRPC(ctx context.Context, c group.GRPCCheck) outcome {
	address := net.JoinHostPort(group.LoopbackAddress, strconv.Itoa(c.Port))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	)
	if err != nil {
		return failing(err.Error())
	}
	defer conn.Close() //nolint:errcheck // answered, or given up
	about := fmt.Sprintf("grpc health of %q at %s", c.Service, address)
	answer, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: c.Service})
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound:
		return failing(about + ": the server knows no service of that name")
	case codes.Unimplemented:
		return failing(about + ": the server has no grpc.health.v1.Health")
	default:
		return failing(about + ": " + err.Error())
	}
	switch s := answer.GetStatus(); s {
	case healthv1.HealthCheckResponse_SERVING:
		return outcome{}
	case healthv1.HealthCheckResponse_UNKNOWN:
		return outcome{unsure, about + ": the server does not know"}
	default:
		return failing(fmt.Sprintf("%s: %s", about, s))
	}
}

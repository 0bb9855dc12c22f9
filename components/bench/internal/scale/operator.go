package scale

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"cadre.dev/bench/internal/world"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// operator applies specs at one coordinator.
type operator struct {
	conn   *grpc.ClientConn
	client apiv1.ClusterServiceClient
}

// operator dials coordinator n from inside the lab.
func (c *cluster) operator(n int) (*operator, error) {
	conn, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(c.hosts[n].Addr().String(), "7444"),
		//nolint:gosec // a client attests coordinators; attestation is not measured here
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})),
		grpc.WithContextDialer(func(ctx context.Context, address string) (conn net.Conn, err error) {
			err = errors.Join(err, c.lab.Inside(func() error {
				conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
				return err
			}))
			return conn, err
		}))
	if err != nil {
		return nil, err
	}
	return &operator{conn: conn, client: apiv1.NewClusterServiceClient(conn)}, nil
}

func (o *operator) close() { _ = o.conn.Close() }

// apply writes a spec, and retries while the API is not available yet.
func (o *operator) apply(ctx context.Context, name string, spec []byte) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "x-consul-token", operatorToken), time.Minute)
	defer cancel()
	var last error
	err := every(ctx, 500*time.Millisecond, func() (bool, error) {
		_, last = o.client.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: name, SpecJson: spec})
		switch status.Code(last) {
		case codes.OK:
			return true, nil
		case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.PermissionDenied:
			// Denied: Consul caches the rights to a new group for some seconds.
			return false, nil
		default:
			return false, last
		}
	})
	if err != nil {
		return fmt.Errorf("apply %s: %w", name, errors.Join(err, last))
	}
	return nil
}

// largeGroup is the name of the one large group.
const largeGroup = "large"

// groupName is the name of group i.
func groupName(i int) string { return fmt.Sprintf("g%05d", i) }

// specOf is an operator's spec of a group; another release rolls it.
func specOf(name string, slots int, release string) ([]byte, error) {
	none := 0
	return json.Marshal(group.Spec{
		Name: name, Platform: "phala", Replicas: slots, ManagementPolicy: group.Parallel,
		Template: group.Template{
			Compose:      "services:\n  web:\n    image: example.org/web@sha256:" + strings.Repeat("a", 64) + "\n    environment:\n      RELEASE: " + release + "\n",
			InstanceType: "tdx.small", OSImage: world.OSImage,
		},
		UpdatePolicy: group.UpdatePolicy{MinReadySeconds: &none},
	})
}

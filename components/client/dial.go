package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"cadre.dev/core/clusterid"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// APIPort is the coordinators' port of the operator API.
const APIPort = 7444

// maxMessage bounds one reply.
const maxMessage = 8 << 20

// readRetries retries reads while no coordinator answers. A call that changes a record is retried
// only if it certainly was not sent.
const readRetries = `{"methodConfig":[{
  "name":[
    {"service":"cadre.api.v1.ClusterService","method":"GetGroup"},
    {"service":"cadre.api.v1.ClusterService","method":"ListGroups"},
    {"service":"cadre.api.v1.ClusterService","method":"PlanRollout"},
    {"service":"cadre.api.v1.ClusterService","method":"ListRollouts"},
    {"service":"cadre.api.v1.ClusterService","method":"ListInstances"},
    {"service":"cadre.api.v1.ClusterService","method":"DescribeInstance"},
    {"service":"cadre.api.v1.ClusterService","method":"GetCluster"},
    {"service":"cadre.api.v1.ClusterService","method":"GetOverlay"},
    {"service":"cadre.api.v1.ClusterService","method":"PingPeer"},
    {"service":"cadre.api.v1.ControlService"},
    {"service":"cadre.api.v1.AuditService"},
    {"service":"cadre.api.v1.BootService"},
    {"service":"cadre.api.v1.OperatorService","method":"AddOperator"},
    {"service":"cadre.api.v1.OperatorService","method":"ListOperators"},
    {"service":"cadre.api.v1.OperatorService","method":"RotateOperator"},
    {"service":"cadre.api.v1.OperatorService","method":"ShowOperator"},
    {"service":"cadre.api.v1.MetricsService"},
    {"service":"cadre.api.v1.PolicyService"}],
  "retryPolicy":{"maxAttempts":5,"initialBackoff":"0.2s","maxBackoff":"3s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

// Options configure the connection to the coordinators.
type Options struct {
	// Dial replaces the TCP dial to the gateway; tests and tunnels use it.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// CallTimeout bounds each call, default 30 s; watches and waits last as long as their ctx.
	CallTimeout time.Duration
	// Instance is the instance id of the one CVM of the coordinators' app that the gateway selects;
	// empty: any coordinator.
	Instance string
}

// Client calls the coordinators of one cluster. Safe for concurrent use.
type Client struct {
	ctx    Context
	opts   Options
	conn   *grpc.ClientConn
	api    apiv1.ClusterServiceClient
	policy apiv1.PolicyServiceClient
	// operations serves Operations and the operators' requests about them.
	operations apiv1.OperationServiceClient
	link       *link
	timeout    time.Duration
}

// Dial prepares a Client; it connects at the first call. The Context must have a pinned CA and
// cluster ID: Attest returns them.
func Dial(c Context, opts Options) (*Client, error) {
	if c.CAPEM == "" {
		return nil, &Error{Kind: Untrusted, Doing: "connect to " + c.Cluster, Message: "no cluster CA is pinned yet",
			Hint: "prove the coordinators first: `cadre cluster connect`"}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.CAPEM)) {
		return nil, fmt.Errorf("connect to %s: ca_pem in the context is not a PEM certificate", c.Cluster)
	}
	if got := clusterid.OfPEM([]byte(c.CAPEM)); c.ClusterID == "" || got != c.ClusterID {
		return nil, &Error{Kind: Untrusted, Doing: "connect to " + c.Cluster,
			Message: fmt.Sprintf("the context pins cluster ID %q, and a CA of cluster ID %q", c.ClusterID, got),
			Hint:    "prove the coordinators again: `cadre cluster connect --reattest`"}
	}
	l := &link{roots: pool, dnsName: c.CoordinatorDNSName(), clusterID: c.ClusterID}
	conn, err := newConn(c, opts, &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The dialled name is the gateway's. The certificate is checked against the pinned CA and
		// the coordinator's own name instead.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it
		VerifyConnection:   l.verify,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Cluster, err)
	}
	timeout := opts.CallTimeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	return &Client{ctx: c, opts: opts, conn: conn, api: apiv1.NewClusterServiceClient(conn), policy: apiv1.NewPolicyServiceClient(conn), operations: apiv1.NewOperationServiceClient(conn), link: l, timeout: timeout}, nil
}

func newConn(c Context, opts Options, cfg *tls.Config) (*grpc.ClientConn, error) {
	if opts.Instance != "" { // a gateway takes either id (docs/reference/platforms.md)
		c.CoordinatorAppID = opts.Instance
	}
	cfg.ServerName = c.ServerName(APIPort)
	dial := opts.Dial
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address)
		}
	}
	return grpc.NewClient("passthrough:///"+c.gatewayAddress(APIPort),
		grpc.WithTransportCredentials(credentials.NewTLS(cfg)),
		grpc.WithContextDialer(dial),
		grpc.WithDefaultServiceConfig(readRetries),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithPerRPCCredentials(token(c.Token)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 10 * time.Second,
			Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}}),
		// A coordinator that vanished behind the gateway is noticed in half a minute.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
	)
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Context returns the Context of Dial.
func (c *Client) Context() Context { return c.ctx }

// token is the caller's Consul ACL token, sent with each call over TLS only.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"x-consul-token": string(t)}, nil
}

func (t token) RequireTransportSecurity() bool { return true }

// link checks connections and remembers the last failure of the check: gRPC reports it only as one
// more unreachable server.
type link struct {
	roots     *x509.CertPool
	dnsName   string
	clusterID string

	mu  sync.Mutex // guards bad
	bad *untrusted
}

type untrusted struct{ err error }

func (u *untrusted) Error() string {
	return "the answering server is not a coordinator of this cluster: " + u.err.Error()
}

func (l *link) verify(state tls.ConnectionState) error {
	err := verifyChain(state, l.roots, l.dnsName)
	if got := clusterid.OfChain(state.PeerCertificates); err != nil && got != "" && got != l.clusterID {
		err = fmt.Errorf("CLUSTER_MISMATCH: its certificates are of cluster ID %s, the context pins cluster ID %s: another set of coordinators of the same name", got, l.clusterID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad = nil
	if err != nil {
		l.bad = &untrusted{err}
		return l.bad
	}
	return nil
}

func (l *link) lastUntrusted() *untrusted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad
}

func verifyChain(state tls.ConnectionState, roots *x509.CertPool, dnsName string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, DNSName: dnsName,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/callers"
	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/kvproxy"
	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/overlay/grpcserver"
	"cadre.dev/overlaystatus"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// Tokens manages the operators' ACL.
type Tokens interface {
	EnsureOperator(ctx context.Context, secret string, groups []string) error
	EnsureNamed(ctx context.Context, secret string, o tokens.Operator, groups []string) error
	// HasFirst reports whether the token of the trust file exists, and EndFirst deletes it.
	HasFirst(ctx context.Context) (bool, error)
	EndFirst(ctx context.Context) error
	// Revoke deletes tokens by accessor; an empty accessor is skipped.
	Revoke(ctx context.Context, accessors ...string) error
	AllowGroup(ctx context.Context, callerToken, name string, groups []string) error
	// MayWrite reports whether a token may write a KV key, given in full.
	MayWrite(ctx context.Context, token, key string) (bool, error)
	// NameOf returns the name of a token's holder for the record; the name never contains the
	// secret. It asks Consul's leader and returns tokens.ErrDenied when the token certainly does
	// not exist.
	NameOf(ctx context.Context, token string) (string, error)
	// CheckOperator returns nil for a token of a caller outside the cluster, and tokens.ErrDenied
	// when the token certainly is not such a one.
	CheckOperator(ctx context.Context, token string) error
}

// Quoter makes this coordinator's evidence.
type Quoter interface {
	GetQuote(ctx context.Context, reportData []byte) (attest.Evidence, error)
}

// Watermark reports the watermarks of the records and the highest ones seen.
type Watermark interface {
	State(ctx context.Context) (watermark.State, error)
}

// Config of a Server. All fields are required except OperatorTokenSHA256, Images, Waits
// and Panics.
type Config struct {
	Cluster, AppID, Slot, Version string
	// OperatorTokenSHA256 is the digest of the token that may be created at first use.
	OperatorTokenSHA256 string
	Simulated           bool
	// Images is the cluster's image policy; explanations apply it.
	Images policy.ImagePolicy
	// Validator validates specs, as the leader does.
	Validator *specvalidate.Validator
	// Measure renders the measured documents of CVMs, as the leader does.
	Measure  measure.Measure
	Root     *keys.Root
	Identity *keys.Identity
	// Certificate returns the current SVID.
	Certificate func() (tls.Certificate, error)
	// Store reads for callers whose right Consul has confirmed.
	Store    store.Store
	Views    *view.Watcher
	Platform *observe.Platform
	Reports  observe.Reports
	Timing   rollout.Timing
	Tokens   Tokens
	Quoter   Quoter
	// Consul is the address (host:port) of the local Consul, and Datacenter its datacenter. Transport
	// reaches it with callers' tokens.
	Consul, Datacenter string
	Transport          http.RoundTripper
	// StoreFor returns the store with a caller's token.
	StoreFor func(token string) (store.Store, error)
	// Overlay is this coordinator's view of the overlay; Agents gives those of agents that are
	// connected here.
	Overlay overlaystatus.Asked
	Agents  func(slot string) (overlaystatus.Asked, bool)
	// Metrics gives the figures of this coordinator and of the agents that are connected here.
	Metrics Metrics
	// Logs gives logs and runs commands for operators.
	Logs LogSources
	// Watermark reports the watermarks of the records.
	Watermark Watermark
	// Coordinators serves CoordinatorsService.
	Coordinators Coordinators
	// Waits reports that this coordinator has no records and waits for a backup; nil: it never does.
	Waits func() bool
	Now   func() time.Time
	Log   *slog.Logger
	// Panics turns a panic of a handler into an error; nil: the panic ends the process.
	Panics *contain.Panics
}

// Bounds of a call; those of connections are in package callers.
const (
	// maxMessage bounds a request; a spec is the largest.
	maxMessage = 512 << 10
	// maxStreams bounds the concurrent calls of a connection.
	maxStreams = 32
	// maxWatches bounds the concurrent watches: each plans once a second.
	maxWatches = 64
	// callTime bounds every call except a watch, also when the caller would wait longer.
	callTime = 30 * time.Second
	// recordsTime bounds a call's wait for the coordinator's first read of the records. answerTime
	// is the part of the call's own time that is kept for the error.
	recordsTime = 25 * time.Second
	answerTime  = time.Second
	// idleTime ends unused connections. A caller that does not answer for aliveTime and then
	// aliveWait is disconnected.
	idleTime  = time.Minute
	aliveTime = 30 * time.Second
	aliveWait = 20 * time.Second
	// pingTime is the minimum interval of a caller's keepalive pings; `cadre` pings every 20 s
	// while it watches.
	pingTime = 10 * time.Second
)

// Server serves ClusterService. Safe for concurrent use.
type Server struct {
	apiv1.UnimplementedClusterServiceServer
	apiv1.UnimplementedPolicyServiceServer
	apiv1.UnimplementedOperationServiceServer
	apiv1.UnimplementedRecoveryServiceServer
	apiv1.UnimplementedControlServiceServer
	apiv1.UnimplementedAuditServiceServer
	apiv1.UnimplementedOperatorServiceServer
	apiv1.UnimplementedCoordinatorsServiceServer
	apiv1.UnimplementedBackupServiceServer
	apiv1.UnimplementedBootServiceServer
	apiv1.UnimplementedSealingServiceServer
	cfg      Config
	operator operatorOnce
	callers  *callers.Callers
	// quotes and operatorQuotes bound concurrent quotes: those for unauthenticated callers, and
	// those for operators, who need not wait behind the former.
	quotes, operatorQuotes chan struct{}
	watches                chan struct{} // bounds watches
	kv                     *kvproxy.Proxy
	backups                chan struct{} // one backup or restore at a time: each is in memory
	// readers and commands bound the calls of LogService.
	readers, commands chan struct{}
}

// New makes the server.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, quotes: make(chan struct{}, 2), operatorQuotes: make(chan struct{}, 2), watches: make(chan struct{}, maxWatches),
		backups: make(chan struct{}, 1),
		readers: make(chan struct{}, maxReaders), commands: make(chan struct{}, maxCommands),
	}
	s.operator.turn = make(chan struct{}, 1)
	s.kv = kvproxy.New(kvproxy.Config{Consul: cfg.Consul, Datacenter: cfg.Datacenter, Transport: cfg.Transport, Allow: s.allowSpec})
	s.callers = callers.New(callers.Config{
		Token: tokenHeader, Check: s.checkOperator,
		Refused: func(err error) bool { return errors.Is(err, tokens.ErrDenied) },
		Open:    func(method string) bool { return method == apiv1.ClusterService_AttestCoordinator_FullMethodName },
	})
	return s
}

// Connections returns the number of open connections of operators and of unauthenticated callers.
func (s *Server) Connections() (operators, unauthenticated int) {
	return s.callers.Operators(), s.callers.Unauthenticated()
}

// Run serves on listener until ctx ends, then gives running calls a moment to finish. Call it once.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	web := s.newWeb()
	var serving sync.WaitGroup
	serving.Go(web.run)
	defer serving.Wait()
	defer web.stop()
	server := grpcserver.New(grpcserver.Limits{Message: maxMessage, Calls: maxStreams, Admit: s.callers.Admit, Contain: s.cfg.Panics.In("api")},
		grpc.Creds(callers.Credentials(&tls.Config{
			MinVersion: tls.VersionTLS13,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				cert, err := s.cfg.Certificate()
				return &cert, err
			},
		}, web.take)),
		grpc.ChainUnaryInterceptor(s.callers.Unary, s.awaitRecords, limitTime),
		grpc.ChainStreamInterceptor(s.callers.Stream, s.awaitRecordsStream),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime, Time: aliveTime, Timeout: aliveWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingTime}),
	)
	apiv1.RegisterClusterServiceServer(server, s)
	apiv1.RegisterPolicyServiceServer(server, s)
	apiv1.RegisterOperationServiceServer(server, s)
	apiv1.RegisterRecoveryServiceServer(server, s)
	apiv1.RegisterControlServiceServer(server, s)
	apiv1.RegisterAuditServiceServer(server, s)
	apiv1.RegisterOperatorServiceServer(server, s)
	apiv1.RegisterCoordinatorsServiceServer(server, s)
	apiv1.RegisterBackupServiceServer(server, s)
	apiv1.RegisterBootServiceServer(server, s)
	apiv1.RegisterSealingServiceServer(server, s)
	apiv1.RegisterMetricsServiceServer(server, newMetricsServer(s))
	apiv1.RegisterLogServiceServer(server, logService{s: s})
	apiv1.RegisterGateServiceServer(server, gateService{s: s})
	apiv1.RegisterQueueServiceServer(server, queueService{s: s})
	apiv1.RegisterDeploymentServiceServer(server, deploymentService{s: s})
	stop := context.AfterFunc(ctx, func() {
		web.stop()
		s.callers.Close() // otherwise gRPC would wait for pending token checks
		// Streams never end on their own.
		hard := time.AfterFunc(2*time.Second, server.Stop)
		server.GracefulStop()
		hard.Stop()
	})
	defer stop()
	defer s.callers.Close()
	err := server.Serve(s.callers.Listener(listener))
	if ctx.Err() != nil {
		return nil
	}
	return err
}

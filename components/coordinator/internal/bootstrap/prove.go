package bootstrap

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// Quoter makes this coordinator's evidence.
type Quoter interface {
	GetQuote(ctx context.Context, reportData []byte) (attest.Evidence, error)
}

const (
	nonceSize = 32
	// turnWait bounds the wait of one caller: any caller may ask, so one quote is made at a time.
	turnWait = 10 * time.Second
	// contactTime bounds a connection while there is no other service on it.
	contactTime = 30 * time.Second
)

// Prover proves this coordinator's cluster ID to other coordinators. Make it with NewProver. Safe
// for concurrent use.
type Prover struct {
	own    statement.ClusterID // without the fields of one exchange
	quoter Quoter
	log    *slog.Logger
	turn   chan struct{}
}

// NewProver makes a Prover that answers with own. The ClusterID of own is "" while it is unknown,
// and its TLSPublicKey is that of the listener's certificate.
func NewProver(own statement.ClusterID, quoter Quoter, log *slog.Logger) *Prover {
	return &Prover{own: own, quoter: quoter, log: log, turn: make(chan struct{}, 1)}
}

// Register serves one first contact, whose exporter is given, on server.
func (p *Prover) Register(server *grpc.Server, exporter []byte) {
	admissionv1.RegisterBootstrapServiceServer(server, &contact{Prover: p, exporter: exporter})
}

// Serve serves one first contact until it ends, while there is no other service.
func (p *Prover) Serve(ctx context.Context, conn net.Conn, state tls.ConnectionState) {
	exporter, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		p.log.Warn("first contact not usable", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	err = grpcconn.Serve(ctx, conn, func(server *grpc.Server) { p.Register(server, exporter) }, grpcserver.Limits{Message: 4 << 10, Calls: 2})
	if err != nil {
		p.log.Debug("first contact ended", "error", err)
	}
}

// contact is one first-contact connection.
type contact struct {
	admissionv1.UnimplementedBootstrapServiceServer
	*Prover
	exporter []byte
}

// ProveClusterID implements BootstrapService.
func (c *contact) ProveClusterID(ctx context.Context, req *admissionv1.ProveClusterIDRequest) (*admissionv1.ProveClusterIDResponse, error) {
	if len(req.GetNonce()) != nonceSize {
		return nil, status.Errorf(codes.InvalidArgument, "BAD_REQUEST: nonce: want %d bytes", nonceSize)
	}
	wait, cancel := context.WithTimeoutCause(ctx, turnWait, errors.New("too many requests at once"))
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-wait.Done():
		return nil, status.Error(codes.Unavailable, "OVERLOADED: too many requests for this coordinator's cluster ID at once")
	}
	said := c.own
	said.Exporter, said.PeerNonce = c.exporter, req.GetNonce()
	data := said.ReportData()
	ev, err := c.quoter.GetQuote(ctx, data[:])
	if err != nil {
		c.log.Error("own evidence not available", "error", err)
		return nil, status.Error(codes.Unavailable, "VERIFIER_UNAVAILABLE: the coordinator cannot make its own evidence now")
	}
	return &admissionv1.ProveClusterIDResponse{
		Statement: said.Encode(),
		Evidence:  &admissionv1.Evidence{Quote: ev.Quote, EventLog: ev.EventLog, AppCompose: ev.AppCompose, Collateral: ev.Collateral},
	}, nil
}

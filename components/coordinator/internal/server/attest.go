package server

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/callers"
	"cadre.dev/overlay"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// quoteWait is the maximum time that an attestation waits for its turn.
const quoteWait = 5 * time.Second

// AttestCoordinator implements ClusterService. It returns evidence over the caller's nonce, this
// server's key and this connection.
func (s *Server) AttestCoordinator(ctx context.Context, req *apiv1.AttestCoordinatorRequest) (*apiv1.AttestCoordinatorResponse, error) {
	return s.attest(ctx, req.GetNonce(), func(own statement.Coordinator) assertion { return own })
}

// assertion is a statement of package attest/statement.
type assertion interface {
	Encode() []byte
	ReportData() [64]byte
}

// attest returns evidence for the statement that complete returns. Its part about the coordinator covers
// the caller's nonce, this server's key and this connection.
func (s *Server) attest(ctx context.Context, nonce []byte, complete func(statement.Coordinator) assertion) (*apiv1.AttestCoordinatorResponse, error) {
	if len(nonce) != 32 {
		return nil, status.Error(codes.InvalidArgument, "nonce: want 32 bytes")
	}
	from, _ := peer.FromContext(ctx)
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "the call did not come over TLS")
	}
	channel, err := info.State.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return nil, status.Error(codes.Internal, "channel binding: "+err.Error())
	}
	// This call needs no token, because callers recognise a coordinator by it. The short wait
	// bounds the queue in a crowd.
	wait, cancel := context.WithTimeout(ctx, quoteWait)
	defer cancel()
	quotes := s.quotes
	if callers.IsOperator(ctx) {
		quotes = s.operatorQuotes
	}
	select {
	case quotes <- struct{}{}:
		defer func() { <-quotes }()
	case <-wait.Done():
		return nil, status.Error(codes.Unavailable, "OVERLOADED: too many attestations at once; try again")
	}
	bundle := s.cfg.Root.CA().BundleSHA256()
	own := complete(statement.Coordinator{
		Cluster: s.cfg.Cluster, ClusterID: s.cfg.Root.ClusterID(), AppID: s.cfg.AppID, Slot: s.cfg.Slot, TLSPublicKey: s.cfg.Identity.PublicKey(),
		Exporter: channel, PeerNonce: nonce, CABundleSHA256: bundle[:],
	})
	reportData := own.ReportData()
	evidence, err := s.cfg.Quoter.GetQuote(ctx, reportData[:])
	if err != nil {
		s.cfg.Log.Error("own evidence not available", "error", err)
		return nil, status.Error(codes.Unavailable, "VERIFIER_UNAVAILABLE: the coordinator cannot produce its own evidence now")
	}
	if len(evidence.Collateral) == 0 {
		return nil, status.Error(codes.Unavailable, "COLLATERAL_UNAVAILABLE: the coordinator has no collateral about its own machine yet; its log says why")
	}
	return &apiv1.AttestCoordinatorResponse{
		Statement: own.Encode(), Quote: evidence.Quote, EventLog: evidence.EventLog, AppCompose: evidence.AppCompose,
		CaBundlePem: s.cfg.Root.CA().PEM(), Collateral: evidence.Collateral,
	}, nil
}

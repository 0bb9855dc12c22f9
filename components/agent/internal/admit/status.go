package admit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"google.golang.org/grpc"
)

// EndedError says that this Boot no longer is the Slot that it was admitted to. Its
// name is spent: only a new Boot key may ask for the Slot again.
type EndedError struct {
	// Code is INCARNATION_STALE, or the reason of an eviction.
	Code, Message string
}

// Error names the code.
func (e *EndedError) Error() string { return e.Code + ": " + e.Message }

// OnlyEnded returns err if it is an EndedError, else nil.
func OnlyEnded(err error) error {
	if _, ended := errors.AsType[*EndedError](err); ended {
		return err
	}
	return nil
}

// AdmissionStatus asks a coordinator whether this Boot is still admitted; nil means yes.
// *EndedError means no, from a server with the SVID of a coordinator under the CA of this Boot's
// admission. Any other error means that the status is unknown.
func (c *Client) AdmissionStatus(ctx context.Context, a *Admitted) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	conn, err := c.cfg.Dial(ctx)
	if err != nil {
		return fmt.Errorf("reach coordinator: %w", err)
	}
	defer conn.Close() //nolint:errcheck // one exchange per connection
	if err := isCoordinator(conn.State(), a); err != nil {
		return fmt.Errorf("BROKER_UNTRUSTED: %w", err)
	}
	client, err := grpcconn.Client(conn)
	if err != nil {
		return fmt.Errorf("reach coordinator: %w", err)
	}
	defer client.Close() //nolint:errcheck // as above
	answer, err := admissionv1.NewAdmissionServiceClient(client).AdmissionStatus(ctx, &admissionv1.AdmissionStatusRequest{
		Group: a.ID.Group, Slot: a.ID.Slot,
	}, grpc.MaxCallRecvMsgSize(64<<10))
	if err != nil {
		return fmt.Errorf("admission status: %w", err)
	}
	if !answer.GetHolds() {
		return &EndedError{Code: answer.GetCode(), Message: answer.GetMessage()}
	}
	return nil
}

func isCoordinator(state tls.ConnectionState, a *Admitted) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	leaf, between := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: a.Credentials.Roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		return err
	}
	if len(leaf.URIs) != 1 {
		return fmt.Errorf("the server's certificate has %d names, want 1", len(leaf.URIs))
	}
	id, err := overlay.ParseID(leaf.URIs[0].String())
	if err != nil {
		return err
	}
	if id.Cluster != a.ID.Cluster || id.Group != overlay.CoordinatorGroup {
		return fmt.Errorf("%s is no coordinator of cluster %s", id, a.ID.Cluster)
	}
	return nil
}

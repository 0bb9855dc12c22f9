package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/core/group"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Sealed is the outcome of SetSecret.
type Sealed struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Epoch that the value was sealed for, and Bytes its size.
	Epoch uint32 `json:"epoch"`
	Bytes int    `json:"bytes"`
	// By is the coordinator that proved the key.
	By string `json:"proven_by"`
	// InForce: the leader has put the value in force.
	InForce bool `json:"in_force"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// takenIn bounds the wait for the leader.
const takenIn = 10 * time.Second

// SetSecret gives the next value of an operator's secret. The value is sealed here, after the
// coordinator proved its key: genuine evidence under the context's trust, over a fresh nonce, this very
// connection and the key. The error has Kind Untrusted when the proof fails, and then nothing was
// sealed. dryRun does all except the change.
func (c *Client) SetSecret(ctx context.Context, groupName, name string, value secret.Value, reason string, dryRun bool) (Sealed, error) {
	doing := "set " + groupName + "/" + name
	switch n := value.Len(); {
	case n == 0:
		return Sealed{}, &Error{Kind: Invalid, Doing: doing, Message: "the value is empty"}
	case n > group.MaxSealedBytes:
		return Sealed{}, &Error{Kind: Invalid, Doing: doing, Message: fmt.Sprintf("the value has %d bytes, at most %d are allowed", n, group.MaxSealedBytes)}
	}
	key, epoch, by, err := c.sealingKey(ctx, doing, groupName, name)
	if err != nil {
		return Sealed{}, err
	}
	text, err := sealed.Seal(key.PublicKey, sealed.Place{ClusterID: key.ClusterID, Group: groupName, Name: name, Epoch: epoch, KeyEpoch: key.KeyEpoch}, value)
	if err != nil {
		return Sealed{}, fmt.Errorf("%s: %w", doing, err)
	}
	call, cancel := c.bound(ctx)
	defer cancel()
	_, err = apiv1.NewSealingServiceClient(c.conn).SetSecret(call, &apiv1.SetSecretRequest{
		Group: groupName, Name: name, Epoch: epoch, KeyEpoch: key.KeyEpoch, Ciphertext: text, Reason: reason, DryRun: dryRun,
	})
	if err != nil {
		return Sealed{}, c.wrap(doing, err)
	}
	out := Sealed{Group: groupName, Name: name, Epoch: epoch, Bytes: value.Len(), By: by, DryRun: dryRun}
	if dryRun {
		return out, nil
	}
	out.InForce, err = c.taken(ctx, doing, groupName, name, epoch)
	return out, err
}

// sealingKey returns the proven key and the next epoch of a secret.
func (c *Client) sealingKey(ctx context.Context, doing, groupName, name string) (st statement.SealingKey, epoch uint32, by string, err error) {
	verifier, err := attest.NewVerifier(c.ctx.Trust.VerifierConfig())
	if err != nil {
		return st, 0, "", fmt.Errorf("%s: trust of the context: %w", doing, err)
	}
	nonce := make([]byte, 32)
	if _, err := rand.Read(nonce); err != nil {
		return st, 0, "", fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	from := &peer.Peer{}
	reply, err := apiv1.NewSealingServiceClient(c.conn).GetSealingKey(ctx, &apiv1.GetSealingKeyRequest{Nonce: nonce, Group: groupName, Name: name}, grpc.Peer(from))
	if err != nil {
		return st, 0, "", c.wrap(doing, err)
	}
	refuse := func(err error) error {
		return &Error{Kind: Untrusted, Doing: doing, Message: err.Error(), cause: err,
			Hint: "nothing was sealed; check coordinator_app_id, key provider, roots and images of the context's trust, and the operator of the gateway"}
	}
	ch, err := channelOf(from)
	if err != nil {
		return st, 0, "", refuse(err)
	}
	ch.nonce = nonce
	if err := checkSizes(reply.GetProof()); err != nil {
		return st, 0, "", refuse(err)
	}
	if st, err = statement.DecodeSealingKey(reply.GetProof().GetStatement()); err != nil {
		return st, 0, "", refuse(fmt.Errorf("statement: %w", err))
	}
	if _, err := proveStatement(ctx, c.ctx, verifier, ch, reply.GetProof(), st.Coordinator, st.ReportData()); err != nil {
		return st, 0, "", refuse(err)
	}
	if reply.GetNextEpoch() == 0 {
		return st, 0, "", refuse(errors.New("the coordinator names no epoch"))
	}
	return st, reply.GetNextEpoch(), st.Slot, nil
}

// taken waits for the leader to put an epoch in force; false: not within takenIn.
func (c *Client) taken(ctx context.Context, doing, groupName, name string, epoch uint32) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, takenIn)
	defer cancel()
	for {
		list, err := c.Secrets(ctx, groupName)
		for _, one := range list {
			switch {
			case one.Name != name || err != nil:
			case one.Epoch >= epoch && !one.NoValue:
				return true, nil
			case !one.Requested:
				return false, &Error{Kind: Conflict, Doing: doing, Message: fmt.Sprintf("the leader did not take epoch %d: its log says why", epoch),
					Hint: "was the spec or the secret changed meanwhile? run the command again"}
			}
		}
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, nil
		case <-timer.C:
		}
	}
}

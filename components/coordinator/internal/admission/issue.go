package admission

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// credentialTTL of everything that is given out; agents renew well before.
const credentialTTL = keys.LeafTTL

// tokensPerBoot is how many accessors one admission adds.
const tokensPerBoot = 2

// issue makes the credentials of a Boot that holds the Slot now.
func (a *attempt) issue(ctx context.Context) (*admissionv1.AdmitResponse, *refusal) {
	consul, refused := a.consul(ctx)
	if refused != nil {
		return nil, refused
	}
	public, err := x509.ParsePKIXPublicKey(a.bootKey)
	if err != nil {
		return nil, refuse(codeBadRequest, "boot key: %v", err)
	}
	ca := a.cfg.Root.CA()
	der, until, err := ca.SVID(public, a.policy.Group, a.slot, nil, a.now())
	if err != nil {
		return nil, refuse(codeTokens, "%v", err).later()
	}
	secrets, err := a.cfg.Secrets.For(ctx, a.spec, a.slot)
	if err != nil {
		return nil, refuse(codeTokens, "%v", err).later()
	}
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), ca.PEM()...)
	return &admissionv1.AdmitResponse{
		Credentials: &admissionv1.Credentials{
			Cluster: a.cfg.Cluster, Group: a.policy.Group, Slot: a.slot, BootId: a.bootID,
			SvidChainPem: chain, CaBundlePem: ca.PEM(), ExpiresAt: timestamppb.New(until),
			Vip: a.record.VIP, Consul: consul, Secrets: secrets, Revision: a.revision,
			Generation: a.admission.Generation, PolicyEpoch: a.admission.Epoch, Simulated: a.simulated,
		},
		InitialPeers: a.cfg.Directory.InitialPeers(a.policy.Group, a.slot),
	}, nil
}

// consul issues tokens, records them before they are given out, and takes back
// what the Slot had before.
func (a *attempt) consul(ctx context.Context) (*admissionv1.ConsulCredentials, *refusal) {
	agent, workload, err := a.cfg.Issuer.Slot(ctx, a.spec, a.slot)
	if err != nil {
		return nil, refuse(codeTokens, "%v", err).later()
	}
	old, refused := a.recordTokens(ctx, agent.Accessor, workload.Accessor)
	if refused != nil {
		// Nobody has them yet.
		if err := a.cfg.Issuer.Revoke(ctx, agent.Accessor, workload.Accessor); err != nil {
			a.log.Warn("unused tokens not revoked", "slot", a.slot, "error", err)
		}
		return nil, refused
	}
	a.revoke(ctx, old)
	certPEM, keyPEM, err := a.cfg.Root.CA().ConsulTLS(keys.ConsulClient, a.slot, a.cfg.Datacenter, a.now())
	if err != nil {
		return nil, refuse(codeTokens, "%v", err).later()
	}
	gossip, epoch, err := a.cfg.Secrets.Gossip(ctx)
	if err != nil {
		return nil, refuse(codeTokens, "%v", err).later()
	}
	return &admissionv1.ConsulCredentials{
		Datacenter: a.cfg.Datacenter, GossipKey: gossip, GossipEpoch: epoch, AgentToken: agent.Secret, WorkloadToken: workload.Secret,
		TlsCertPem: certPEM, TlsKeyPem: keyPEM, ServerVips: a.cfg.ServerVIPs,
	}, nil
}

// recordTokens adds the accessors to the admission and says which ones are to be
// revoked: all of another Boot's; of a renewing Boot all but the latest pair,
// which it still uses until it has taken the new one.
func (a *attempt) recordTokens(ctx context.Context, accessors ...string) (revoke []string, refused *refusal) {
	held, index, err := store.Read[policy.Admission](ctx, a.store, store.AdmissionKey(a.slot))
	if err != nil {
		return nil, refuse(codeTokens, "read the slot's admission: %v", err).later()
	}
	if held.BootID != a.bootID || held.Generation != a.admission.Generation {
		return nil, refuse(codeStale, "another boot took the slot meanwhile")
	}
	keep := 0
	if a.renewal {
		keep = min(tokensPerBoot, len(held.TokenAccessors))
	}
	cut := len(held.TokenAccessors) - keep
	revoke = append(revoke, held.TokenAccessors[:cut]...)
	held.TokenAccessors = append(append([]string{}, held.TokenAccessors[cut:]...), accessors...)
	op, err := store.Put(store.AdmissionKey(a.slot), held, index)
	if err != nil {
		return nil, refuse(codeTokens, "%v", err).later()
	}
	if err := a.store.Commit(ctx, op); err != nil {
		if errors.Is(err, store.ErrConflict) {
			return nil, refuse(codeStale, "another boot took the slot meanwhile").later()
		}
		return nil, refuse(codeTokens, "record tokens: %v", err).later()
	}
	return revoke, nil
}

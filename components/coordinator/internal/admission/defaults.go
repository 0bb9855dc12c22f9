package admission

import (
	"context"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// ReattestAfter is how long evidence is good for renewals.
const ReattestAfter = 24 * time.Hour

// mayRenewByEpoch allows what was appraised under the present policy, lately.
func mayRenewByEpoch(a policy.Admission, sp policy.SlotPolicy, _ policy.ImagePolicy, now time.Time) policy.Decision {
	switch {
	case !now.Before(a.AttestedAt.Add(ReattestAfter)):
		return policy.Decision{Code: policy.CodeReattestRequired, Message: "the evidence is older than a day"}
	case sp.Epoch != a.Epoch:
		return policy.Decision{Code: policy.CodeReattestRequired, Message: "the slot's policy changed since the evidence was appraised"}
	}
	return policy.Decision{Allowed: true, Revision: a.Revision}
}

// rootSecrets are derived from the cluster's root, and never change: the guest agent
// is asked once for each.
type rootSecrets struct {
	root *keys.Root

	mu    sync.Mutex
	known map[string]string // guarded by mu; by group and name
}

func (r *rootSecrets) get(ctx context.Context, group, name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, ok := r.known[group+"/"+name]; ok {
		return value, nil
	}
	value, err := r.root.Secret(ctx, group, name)
	if err == nil {
		r.known[group+"/"+name] = value
	}
	return value, err
}

func (r *rootSecrets) For(ctx context.Context, spec group.Spec, _ string) ([]*admissionv1.Secret, error) {
	var out []*admissionv1.Secret
	for _, name := range SecretNames(spec) {
		value, err := r.get(ctx, spec.Name, name)
		if err != nil {
			return nil, err
		}
		out = append(out, &admissionv1.Secret{Name: name, Value: []byte(value), Epoch: 1})
	}
	return out, nil
}

func (r *rootSecrets) Gossip(context.Context) (string, uint32, error) {
	return r.root.GossipKey(), 1, nil
}

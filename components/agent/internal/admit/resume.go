package admit

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"cadre.dev/agent/internal/credcache"
	"cadre.dev/core/clusterid"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// State is the state that the next worker of this Boot needs to continue with a.
func (a Admitted) State() (credcache.State, error) {
	grant, err := proto.Marshal(a.Grant)
	if err != nil {
		return credcache.State{}, fmt.Errorf("encode credentials: %w", err)
	}
	return credcache.State{AppID: a.AppID, InstanceID: a.InstanceID, Since: a.Since, Grant: grant, Peers: a.Peers}, nil
}

// Resume continues with the admission of an earlier process of this Boot. It repeats the checks,
// except those of the coordinator's evidence, which is not stored. It rejects an expired
// certificate, but accepts expired tokens: they are useless while the coordinators are away, and
// the coordinators renew them.
func (c *Client) Resume(state credcache.State) (Admitted, error) {
	none := Admitted{}
	grant := &admissionv1.Credentials{}
	if err := proto.Unmarshal(state.Grant, grant); err != nil {
		return none, fmt.Errorf("resume: %w", err)
	}
	id := overlay.ID{Cluster: grant.GetCluster(), Group: grant.GetGroup(), Slot: grant.GetSlot()}
	certificate, roots, err := c.readSVID(grant, id)
	switch {
	case err != nil:
		return none, fmt.Errorf("resume: %w", err)
	case grant.GetBootId() != c.cfg.Boot.ID:
		return none, errors.New("resume: the credentials are for another boot")
	case id.Cluster != c.cfg.Trust.Cluster:
		return none, fmt.Errorf("resume: CLUSTER_MISMATCH: the credentials are of cluster %q, we belong to %q", id.Cluster, c.cfg.Trust.Cluster)
	case len(state.Peers) == 0:
		return none, errors.New("resume: the peer map is empty")
	}
	if err := c.cfg.Pin.Check(clusterid.OfPEM(grant.GetCaBundlePem())); err != nil {
		return none, fmt.Errorf("resume: %w", err)
	}
	out := Admitted{
		ID: id, AppID: state.AppID, InstanceID: state.InstanceID, Grant: grant, Peers: state.Peers,
		Since: state.Since, ExpiresAt: grant.GetExpiresAt().AsTime(),
		Credentials: overlay.Credentials{Certificate: certificate, Roots: roots},
	}
	if !out.ExpiresAt.After(time.Now()) {
		return none, fmt.Errorf("resume: SVID_EXPIRED: the credentials ended at %s", out.ExpiresAt.Format(time.RFC3339))
	}
	return out, nil
}

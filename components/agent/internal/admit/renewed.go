package admit

import (
	"errors"
	"fmt"
	"time"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// Renewed checks credentials that a coordinator gave over a control session: they are
// for the same name, Boot, generation and address as present, and under the very CA that
// the coordinators proved at admission (TOK-20). Secrets that they cannot read the epoch
// of stay as present.
func (c *Client) Renewed(present Admitted, grant *admissionv1.Credentials) (Admitted, error) {
	was := present.Grant
	switch {
	case grant.GetCluster() != present.ID.Cluster || grant.GetGroup() != present.ID.Group || grant.GetSlot() != present.ID.Slot:
		return Admitted{}, fmt.Errorf("read renewed credentials: they are for %s/%s/%s, this is %s",
			grant.GetCluster(), grant.GetGroup(), grant.GetSlot(), present.ID)
	case grant.GetBootId() != c.cfg.Boot.ID:
		return Admitted{}, errors.New("read renewed credentials: they are for another boot")
	case grant.GetGeneration() != was.GetGeneration() || grant.GetVip() != was.GetVip():
		return Admitted{}, errors.New("read renewed credentials: they are for another generation or address")
	case !equal(grant.GetCaBundlePem(), was.GetCaBundlePem()):
		return Admitted{}, errors.New("read renewed credentials: SVID_UNTRUSTED: the CA bundle differs from the one proved at admission")
	case grant.GetExpiresAt() == nil || !grant.GetExpiresAt().AsTime().After(time.Now()):
		return Admitted{}, errors.New("read renewed credentials: SVID_EXPIRED: they have ended already; check the clock")
	}
	certificate, roots, err := c.readSVID(grant, present.ID)
	if err != nil {
		return Admitted{}, fmt.Errorf("read renewed credentials: %w", err)
	}
	if grant, err = keep(was, grant); err != nil {
		return Admitted{}, err
	}
	out := present
	out.Grant, out.Since, out.ExpiresAt = grant, time.Now(), grant.GetExpiresAt().AsTime()
	out.Credentials.Certificate, out.Credentials.Roots = certificate, roots
	return out, nil
}

// Ends is when the first of the credentials expires: certificate or token.
func (a Admitted) Ends() time.Time {
	ends := a.ExpiresAt
	earlier := func(at time.Time) {
		if !at.IsZero() && at.Before(ends) {
			ends = at
		}
	}
	if leaf := a.Credentials.Certificate.Leaf; leaf != nil {
		earlier(leaf.NotAfter)
	}
	if at := a.Grant.GetConsul().GetTokensExpireAt(); at != nil {
		earlier(at.AsTime())
	}
	return ends
}

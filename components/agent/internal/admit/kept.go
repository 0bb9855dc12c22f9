package admit

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// keep fills in what the coordinator left out of grant because it cannot tell which
// value is in force: the Boot keeps what it has by was. What it does not have stays out.
// was is nil at the first admission, and then nothing may be left out.
func keep(was, grant *admissionv1.Credentials) (*admissionv1.Credentials, error) {
	names, gossip := grant.GetKeptSecrets(), grant.GetConsul().GetGossipKept()
	switch {
	case len(names) == 0 && !gossip:
		return grant, nil
	case was == nil:
		return nil, errors.New("read credentials: secrets are left out that this boot never had")
	case gossip && (grant.GetConsul().GetGossipKey() != "" || was.GetConsul().GetGossipKey() == ""):
		return nil, errors.New("read credentials: a gossip key is given and left out, or this boot has none to keep")
	}
	out := proto.Clone(grant).(*admissionv1.Credentials)
	for _, name := range names {
		called := func(s *admissionv1.Secret) bool { return s.GetName() == name }
		if slices.ContainsFunc(out.GetSecrets(), called) {
			return nil, fmt.Errorf("read credentials: secret %q is given and left out", name)
		}
		if i := slices.IndexFunc(was.GetSecrets(), called); i >= 0 {
			out.Secrets = append(out.Secrets, was.GetSecrets()[i])
		}
	}
	if gossip {
		out.Consul.GossipKey, out.Consul.GossipEpoch = was.GetConsul().GetGossipKey(), was.GetConsul().GetGossipEpoch()
	}
	return out, nil
}

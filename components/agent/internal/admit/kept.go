package admit

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// keep fills in what the coordinator left out of grant because the Boot has it by was:
// secrets that nobody can tell which value is in force of, and a certificate that lives
// for long still. A secret that it does not have stays out. was is nil at the first
// admission, and then nothing may be left out.
func keep(was, grant *admissionv1.Credentials) (*admissionv1.Credentials, error) {
	names, gossip, certificate := grant.GetKeptSecrets(), grant.GetConsul().GetGossipKept(), grant.GetConsul().GetTlsKept()
	switch {
	case len(names) == 0 && !gossip && !certificate:
		return grant, nil
	case was == nil:
		return nil, errors.New("read credentials: secrets or a certificate are left out that this boot never had")
	case certificate && (len(grant.GetConsul().GetTlsCertPem()) > 0 || len(was.GetConsul().GetTlsCertPem()) == 0):
		return nil, errors.New("read credentials: a certificate for Consul is given and left out, or this boot has none to keep")
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
	if certificate {
		out.Consul.TlsCertPem, out.Consul.TlsKeyPem = was.GetConsul().GetTlsCertPem(), was.GetConsul().GetTlsKeyPem()
	}
	return out, nil
}

package admit

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// keep fills in the parts that the coordinator left out of grant: the token, if the token of was
// stays valid, and the secrets whose value in force no coordinator could determine. A secret that
// the Boot does not have stays out. was is nil at the first admission; then every part must be
// present.
func keep(was, grant *admissionv1.Credentials) (*admissionv1.Credentials, error) {
	names, token := grant.GetKeptSecrets(), grant.GetConsul().GetTokenKept()
	switch {
	case len(names) == 0 && !token:
		return grant, nil
	case was == nil:
		return nil, errors.New("read credentials: a part is left out that this boot never had")
	}
	out := proto.CloneOf(grant)
	if has := was.GetConsul(); token {
		if has.GetWorkloadToken() == "" || has.GetTokensId() != grant.GetConsul().GetTokensId() || grant.GetConsul().GetWorkloadToken() != "" {
			return nil, errors.New("read credentials: a token is marked as kept, but this boot has none")
		}
		out.Consul.WorkloadToken, out.Consul.TokensExpireAt = has.GetWorkloadToken(), has.GetTokensExpireAt()
	}
	for _, name := range names {
		called := func(s *admissionv1.Secret) bool { return s.GetName() == name }
		if slices.ContainsFunc(out.GetSecrets(), called) {
			return nil, fmt.Errorf("read credentials: secret %q is given and left out", name)
		}
		if i := slices.IndexFunc(was.GetSecrets(), called); i >= 0 {
			out.Secrets = append(out.Secrets, was.GetSecrets()[i])
		}
	}
	return out, nil
}

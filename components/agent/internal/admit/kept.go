package admit

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// keep fills in the secrets that the coordinator left out of grant because nobody can tell
// which value is in force of them: the Boot has what was gave. One that it does not have
// stays out. was is nil at the first admission, and then nothing may be left out.
func keep(was, grant *admissionv1.Credentials) (*admissionv1.Credentials, error) {
	names := grant.GetKeptSecrets()
	switch {
	case len(names) == 0:
		return grant, nil
	case was == nil:
		return nil, errors.New("read credentials: secrets are left out that this boot never had")
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
	return out, nil
}

package agent

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"cadre.dev/agent/internal/workloadfiles"
	"cadre.dev/core/secret"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

func secretsOf(grant *admissionv1.Credentials) map[string]workloadfiles.Secret {
	out := map[string]workloadfiles.Secret{}
	for _, s := range grant.GetSecrets() {
		out[s.GetName()] = workloadfiles.Secret{
			Value: secret.New(s.GetValue()), Epoch: s.GetEpoch(), Mode: fs.FileMode(s.GetMode()), UID: s.GetUid(), GID: s.GetGid(),
		}
	}
	return out
}

// epochs are those of the secrets that this Boot has.
func (a *Agent) epochs() map[string]uint32 {
	secrets := map[string]uint32{}
	current, _ := a.admitted.Get()
	if current == nil {
		return secrets
	}
	for _, s := range current.Grant.GetSecrets() {
		secrets[s.GetName()] = s.GetEpoch()
	}
	return secrets
}

// behind names the parts of the desired state that are newer than the credentials; "" if none. The
// credentials were requested when the desired state of version asked was known. The agent does not
// request a value again that the coordinator could not renew then, until a new version arrives.
func behind(desired *controlv1.Desired, grant *admissionv1.Credentials, asked uint64) string {
	if desired.GetVersion() == 0 {
		return "" // a coordinator that does not know yet
	}
	answered := desired.GetVersion() <= asked
	wanted := maps.Clone(desired.GetSecretEpochs())
	if answered {
		for _, name := range grant.GetKeptSecrets() {
			delete(wanted, name)
		}
	}
	for _, s := range grant.GetSecrets() {
		if answered && slices.Contains(grant.GetKeptSecrets(), s.GetName()) {
			continue
		}
		want, declared := wanted[s.GetName()]
		if !declared {
			return fmt.Sprintf("secret %s is not declared any more", s.GetName())
		}
		if s.GetEpoch() < want {
			return fmt.Sprintf("secret %s has epoch %d now", s.GetName(), want)
		}
		delete(wanted, s.GetName())
	}
	for name := range wanted {
		return fmt.Sprintf("secret %s is declared now", name)
	}
	return ""
}

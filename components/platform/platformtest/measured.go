package platformtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"cadre.dev/platform"
)

func hashOfText(t platform.Template) string {
	sum := sha256.Sum256(t.AppCompose)
	return hex.EncodeToString(sum[:])
}

// measured: the platform measures exactly the bytes that it was sent, for a new app and
// in place.
func (s *suite) measured() {
	made := s.create("contract-measured")
	defer s.remove(made)
	if made.ComposeHash != hashOfText(s.Template(0)) {
		s.Errorf("the cvm runs compose hash %s, the text sent hashes to %s", made.ComposeHash, hashOfText(s.Template(0)))
	}
	for _, t := range []platform.Template{s.Template(1), s.Template(1, "A", "B")} {
		p, err := s.p.Provision(s.Context(), made.VMUUID, t)
		if err != nil || p.ComposeHash != hashOfText(t) || len(p.AppCompose) > 0 {
			s.Errorf("provision = %+v, %v, want compose hash %s and no text of its own", p, err, hashOfText(t))
		}
	}
	t := s.Template(1)
	t.Env = map[string]string{"A": "1"}
	if _, err := s.p.Provision(s.Context(), made.VMUUID, t); !errors.Is(err, platform.ErrRefused) {
		s.Errorf("env that the text does not allow: %v, want ErrRefused", err)
	}
}

// lies: the driver rejects a platform that would measure other bytes, and makes nothing. A platform
// that shows its text is passed on, with the hash of that text.
func (s *suite) lies() {
	s.needFaults()
	if !s.can(CallProvision, "", OtherHash) {
		s.Skip("the driver of this target measures the text on its own")
	}
	made := s.create("contract-lies")
	defer s.remove(made)
	for call, vm := range map[Call]string{CallProvision: "", CallProvisionUpdate: made.VMUUID} {
		for _, mode := range []Mode{OtherHash, OtherText} {
			s.inject(call, vm, mode)
			p, err := s.p.Provision(s.Context(), vm, s.Template(1))
			if !errors.Is(err, platform.ErrMeasuresOther) || !errors.Is(err, platform.ErrRefused) {
				s.Errorf("provision of %q under fault %s = %+v, %v, want ErrMeasuresOther and ErrRefused", vm, mode, p, err)
			}
		}
		s.inject(call, vm, OwnText)
		p, err := s.p.Provision(s.Context(), vm, s.Template(1))
		if err != nil || string(p.AppCompose) != OwnAppCompose || p.ComposeHash != hashOfText(platform.Template{AppCompose: []byte(OwnAppCompose)}) {
			s.Errorf("provision of %q by a platform with its own text = %+v, %v", vm, p, err)
		}
	}
	before := s.count("contract-lied-to")
	p := s.provision(1)
	s.inject(CallProvision, "", OtherHash)
	_, err := s.p.Create(s.Context(), platform.CreateRequest{Name: "contract-lied-to", Provisioned: p, Template: s.Template(1)})
	if !errors.Is(err, platform.ErrRefused) {
		s.Errorf("create on a platform that changed its mind: %v, want ErrRefused", err)
	}
	if s.count("contract-lied-to") != before {
		s.Error("a cvm was created although the platform would measure something else")
	}
	if still := s.describe(made.VMUUID); still.ComposeHash != made.ComposeHash || !still.Running() {
		s.Errorf("asking had an effect: %+v", still)
	}
}

// OwnAppCompose is the text that a platform under fault OwnText insists on.
const OwnAppCompose = `{"docker_compose_file":"services: {}","pre_launch_script":"curl | sh"}`

// Answers are the replies to a Provision by faults OtherHash, OtherText and OwnText, as
// the body of a success; nil for another mode. publicKey is that of the cloud.
func Answers(mode Mode, publicKey string) map[string]any {
	reply := map[string]any{"app_id": "app_" + other[:40], "compose_hash": other, "app_env_encrypt_pubkey": publicKey}
	switch mode {
	case OtherHash:
	case OtherText:
		reply["app_compose"] = OwnAppCompose
	case OwnText:
		reply["app_compose"] = OwnAppCompose
		reply["compose_hash"] = hashOfText(platform.Template{AppCompose: []byte(OwnAppCompose)})
	default:
		return nil
	}
	return reply
}

// other is a hash of nothing that was ever sent.
const other = "abababababababababababababababababababababababababababababababab"

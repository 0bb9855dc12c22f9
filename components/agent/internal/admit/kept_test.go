package admit

import (
	"strings"
	"testing"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

func TestKeepFillsInWhatWasLeftOut(t *testing.T) {
	one := func(name, value string, epoch uint32) *admissionv1.Secret {
		return &admissionv1.Secret{Name: name, Value: []byte(value), Epoch: epoch}
	}
	was := &admissionv1.Credentials{
		Secrets: []*admissionv1.Secret{one("a", "old a", 1), one("b", "old b", 2)},
		Consul:  &admissionv1.ConsulCredentials{GossipKey: "old", GossipEpoch: 3, TlsCertPem: []byte("old cert"), TlsKeyPem: []byte("old key")},
	}
	for name, tc := range map[string]struct {
		was, grant *admissionv1.Credentials
		want, err  string
	}{
		"everything is given": {nil, &admissionv1.Credentials{Secrets: []*admissionv1.Secret{one("a", "new a", 2)}, Consul: &admissionv1.ConsulCredentials{GossipKey: "new", GossipEpoch: 4}}, "a=new a new/4", ""},
		"one is kept":         {was, &admissionv1.Credentials{Secrets: []*admissionv1.Secret{one("a", "new a", 2)}, KeptSecrets: []string{"b", "c"}, Consul: &admissionv1.ConsulCredentials{GossipKey: "new", GossipEpoch: 4}}, "a=new a b=old b new/4", ""},
		"the gossip key is":   {was, &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{GossipKept: true}}, "old/3", ""},
		"the certificate is":  {was, &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{GossipKey: "new", GossipEpoch: 4, TlsKept: true}}, "new/4 old cert, old key", ""},
		"a cert and none":     {was, &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{TlsCertPem: []byte("new"), TlsKept: true}}, "", "left out"},
		"no cert to keep":     {&admissionv1.Credentials{}, &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{TlsKept: true}}, "", "none to keep"},
		"no boot to keep":     {nil, &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{TlsKept: true}}, "", "never had"},
		"nothing to keep":     {nil, &admissionv1.Credentials{KeptSecrets: []string{"b"}}, "", "never had"},
		"no key to keep":      {&admissionv1.Credentials{}, &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{GossipKept: true}}, "", "none to keep"},
		"given and left out":  {was, &admissionv1.Credentials{Secrets: []*admissionv1.Secret{one("b", "x", 9)}, KeptSecrets: []string{"b"}}, "", "left out"},
		"a key and none":      {was, &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{GossipKey: "new", GossipKept: true}}, "", "left out"},
	} {
		got, err := keep(tc.was, tc.grant)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		text := ""
		for _, s := range got.GetSecrets() {
			text += s.GetName() + "=" + string(s.GetValue()) + " "
		}
		text += got.GetConsul().GetGossipKey() + "/" + string('0'+rune(got.GetConsul().GetGossipEpoch()))
		if c := got.GetConsul(); len(c.GetTlsKeyPem()) > 0 {
			text += " " + string(c.GetTlsCertPem()) + ", " + string(c.GetTlsKeyPem())
		}
		if err != nil || text != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, text, err, tc.want)
		}
	}
}

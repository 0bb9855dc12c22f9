package admit

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

func TestKeepFillsInTheToken(t *testing.T) {
	has := &admissionv1.ConsulCredentials{WorkloadToken: "old", TokensId: "1", TokensExpireAt: timestamppb.Now()}
	was := &admissionv1.Credentials{Consul: has}
	kept := func(id, token string) *admissionv1.Credentials {
		return &admissionv1.Credentials{Consul: &admissionv1.ConsulCredentials{TokenKept: true, TokensId: id, WorkloadToken: token, Datacenter: "dc"}}
	}
	got, err := keep(was, kept("1", ""))
	if c := got.GetConsul(); err != nil || c.GetWorkloadToken() != "old" || c.GetTokensExpireAt() != has.GetTokensExpireAt() || c.GetDatacenter() != "dc" {
		t.Errorf("%v, %v", got, err)
	}
	for name, tc := range map[string]struct{ was, grant *admissionv1.Credentials }{
		"nothing to keep":    {nil, kept("1", "")},
		"another token":      {was, kept("2", "")},
		"given and left out": {was, kept("1", "new")},
		"it never had one":   {&admissionv1.Credentials{}, kept("", "")},
	} {
		if got, err := keep(tc.was, tc.grant); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKeepFillsInOmittedParts(t *testing.T) {
	one := func(name, value string, epoch uint32) *admissionv1.Secret {
		return &admissionv1.Secret{Name: name, Value: []byte(value), Epoch: epoch}
	}
	was := &admissionv1.Credentials{
		Secrets: []*admissionv1.Secret{one("a", "old a", 1), one("b", "old b", 2)},
	}
	for name, tc := range map[string]struct {
		was, grant *admissionv1.Credentials
		want, err  string
	}{
		"everything is given": {nil, &admissionv1.Credentials{Secrets: []*admissionv1.Secret{one("a", "new a", 2)}}, "a=new a ", ""},
		"one is kept":         {was, &admissionv1.Credentials{Secrets: []*admissionv1.Secret{one("a", "new a", 2)}, KeptSecrets: []string{"b", "c"}}, "a=new a b=old b ", ""},
		"nothing to keep":     {nil, &admissionv1.Credentials{KeptSecrets: []string{"b"}}, "", "never had"},
		"given and left out":  {was, &admissionv1.Credentials{Secrets: []*admissionv1.Secret{one("b", "x", 9)}, KeptSecrets: []string{"b"}}, "", "left out"},
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
		if err != nil || text != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, text, err, tc.want)
		}
	}
}

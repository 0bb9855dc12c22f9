package group

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func withSecret(change func(*Secret)) Spec {
	s := goodSpec()
	one := Secret{Name: "cookie"}
	change(&one)
	s.Secrets = []Secret{one}
	return s
}

func TestSecretsAreBounded(t *testing.T) {
	for path, s := range map[string]Spec{
		`secret["Cookie"]`:                  withSecret(func(s *Secret) { s.Name = "Cookie" }),
		`secret["../cookie"]`:               withSecret(func(s *Secret) { s.Name = "../cookie" }),
		`secret[""]`:                        withSecret(func(s *Secret) { s.Name = "" }),
		`secret["cookie"].bytes`:            withSecret(func(s *Secret) { s.Bytes = 15 }),
		`secret["cookie"].format`:           withSecret(func(s *Secret) { s.Format = "pem" }),
		`secret["cookie"].owner`:            withSecret(func(s *Secret) { s.Owner = "postgres" }),
		`secret["cookie"].mode`:             withSecret(func(s *Secret) { s.Mode = "0644" }),
		`secret["cookie"].rotate`:           withSecret(func(s *Secret) { s.Rotate = "59m" }),
		`secret["cookie"].pooler_routes[1]`: withSecret(func(s *Secret) { s.PoolerRoutes = []string{"postgres-master", "Postgres"} }),
		`secret["cookie"].pooler_routes`:    withSecret(func(s *Secret) { s.Format, s.PoolerRoutes = SecretRaw, []string{"postgres-master"} }),
		`secret["cookie"].source`:           withSecret(func(s *Secret) { s.Source = "vault" }),
		`secret["cookie"]`: func() Spec {
			s := goodSpec()
			s.Secrets = []Secret{{Name: "cookie"}, {Name: "cookie"}}
			return s
		}(),
		"secret": func() Spec { s := withSecret(func(*Secret) {}); s.Name = "cluster"; return s }(),
	} {
		t.Run(path, func(t *testing.T) { wantProblem(t, s, path, "") })
	}
	many := goodSpec()
	for i := range maxSecrets + 1 {
		many.Secrets = append(many.Secrets, Secret{Name: "s" + strings.Repeat("x", i)})
	}
	wantProblem(t, many, "secret", "")
}

// TestAnOperatorsSecretHasNoFormOfItsOwn: only a generated value has bytes, format and rotation.
func TestAnOperatorsSecretHasNoFormOfItsOwn(t *testing.T) {
	sealed := func(change func(*Secret)) Spec {
		return withSecret(func(s *Secret) { s.Source = SecretOperator; change(s) })
	}
	for path, s := range map[string]Spec{
		`secret["cookie"].bytes`:  sealed(func(s *Secret) { s.Bytes = 24 }),
		`secret["cookie"].format`: sealed(func(s *Secret) { s.Format = SecretHex }),
		`secret["cookie"].rotate`: sealed(func(s *Secret) { s.Rotate = RotateManual }),
		`secret["cookie"].mode`:   sealed(func(s *Secret) { s.Mode = "0644" }),
		`secret["cookie"].owner`:  sealed(func(s *Secret) { s.Owner = "root" }),
	} {
		t.Run(path, func(t *testing.T) { wantProblem(t, s, path, "") })
	}
	s := sealed(func(s *Secret) { s.Owner, s.PoolerRoutes = "70:70", []string{"postgres-master"} })
	if p := problems(t, s); len(p) > 0 {
		t.Error(p)
	}
	s.Normalize()
	if one := s.Secrets[0]; !one.Sealed() || one.Bytes != 0 || one.Format != "" || one.Rotate != "" || one.Mode != "0600" {
		t.Errorf("normalized: %+v", one)
	}
	plain := withSecret(func(s *Secret) { s.Source = SecretGenerated })
	plain.Normalize()
	if one := plain.Secrets[0]; one.Source != "" || one.Bytes != DefaultSecretBytes {
		t.Errorf("normalized: %+v, which an older coordinator cannot read", one)
	}
}

// TOK-16: no mode lets others read, and none is taken in two ways.
func TestTOK16_NoModeLetsOthersRead(t *testing.T) {
	for mode, want := range map[string]bool{
		"0600": true, "0400": true, "600": true, "0440": true, "0640": true, "0660": true,
		"0644": false, "0604": false, "0700": false, "0200": false, "0": false, "": false, "4600": false, "00600": false, "0o600": false, "-600": false, "0x1ff": false, "0601": false,
	} {
		if _, ok := (Secret{Mode: mode}).FileMode(); ok != want {
			t.Errorf("mode %q: %t", mode, ok)
		}
	}
	for owner, want := range map[string]bool{
		"0": true, "999": true, "999:998": true, "0:0": true,
		"": false, ":": false, "1:": false, ":1": false, "-1": false, "+1": false, "01": false, "1:2:3": false, "4294967295": false, "root": false, " 1": false,
	} {
		if _, _, ok := (Secret{Owner: owner}).FileOwner(); ok != want {
			t.Errorf("owner %q: %t", owner, ok)
		}
	}
	if uid, gid, _ := (Secret{Owner: "7"}).FileOwner(); uid != 7 || gid != 7 {
		t.Errorf("owner 7 is %d:%d", uid, gid)
	}
}

func TestSecretsOfAGroup(t *testing.T) {
	s := goodSpec() // under Patroni
	s.Secrets = []Secret{{Name: "superuser", Owner: "70:70", Rotate: "24h"}, {Name: "cookie"}}
	var names []string
	for _, one := range s.AllSecrets() {
		names = append(names, one.Name+" "+one.Owner+" "+one.Mode)
	}
	if got := strings.Join(names, ", "); got != "cookie 0:0 0600, replication  , rewind  , superuser 70:70 0600" {
		t.Errorf("secrets = %s", got)
	}
	if every, ok := s.AllSecrets()[3].Every(); !ok || every != 24*time.Hour {
		t.Errorf("every = %s, %t", every, ok)
	}
	if p := problems(t, s); len(p) > 0 {
		t.Error(p)
	}
	if s.Secrets[1].Mode != "" {
		t.Error("the caller's spec was changed")
	}
	rotated := s
	rotated.Secrets = nil
	if s.Revision() != rotated.Revision() {
		t.Error("a secret is part of the revision")
	}
}

// OPS-07 and TOK-06: a value that looks like a secret is rejected with its code and the way out.
// The message does not repeat the value.
func TestOPS07_SecretInSpecIsRefused(t *testing.T) {
	pem := "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIAbc\n-----END EC PRIVATE KEY-----\n"
	for name, value := range map[string]string{
		"PASSWORD": "hunter2", "PGPASSWORD": "hunter2", "DB_PASSWORD": "hunter2hunter2", "ADMIN_PASSWD": "x12345", "KEY_PASSPHRASE": "correct horse",
		"TOKEN": "abcdef", "CONSUL_HTTP_TOKEN": "2f6d7a1e-0000-4000-8000-000000000000", "GITHUB_TOKEN_VALUE": "abcdef", "SECRET": "abcdef", "SECRET_KEY_BASE": "abcdef",
		"AWS_SECRET_ACCESS_KEY": "abcdef", "API_KEY": "abcdef", "STRIPE_APIKEY": "abcdef", "jwt_secret": "abcdef", "Credentials": "abcdef", "SIGNING_KEY": "abcdef",
		"TLS": pem, "TLS_B64": base64.StdEncoding.EncodeToString([]byte(pem)), "TLS_KEY_FILE": pem,
		"WHATEVER": "AKIAIOSFODNN7EXAMPLE", "NOTE": "use ghp_0123456789abcdefghijABCDEFGHIJ012345 for it", "DSN": "postgres://app:hunter2@db/app",
		"THING": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "BLOB": "q7Zk3vP0sR8tXyLmN4wB2cD6fG1hJ5kA",
	} {
		for where, put := range map[string]func(*Spec){
			"template.env":      func(s *Spec) { s.Template.Env = map[string]string{name: value} },
			"meta":              func(s *Spec) { s.Meta = map[string]string{name: value} },
			"workload.settings": func(s *Spec) { s.Workload.Settings = map[string]string{name: value} },
		} {
			s := goodSpec()
			put(&s)
			found := false
			for _, p := range problems(t, s) {
				if !strings.Contains(p, "SECRET_IN_SPEC") {
					continue
				}
				found = strings.HasPrefix(p, where+`["`+name+`"]`) && strings.Contains(p, "declare a secret")
				if strings.Contains(p, value) {
					t.Errorf("the refusal repeats the secret: %s", p)
				}
			}
			if !found {
				t.Errorf("%s in %s is not refused", name, where)
			}
		}
	}
}

// Names and values from real specs.
func TestOPS07_PlainValuesAreLeftAlone(t *testing.T) {
	certificate := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n" + strings.Repeat("MIIBszCCAVmgAwIBAgIUQ", 20) + "\n-----END CERTIFICATE-----\n"))
	env := map[string]string{
		"CADRE_RENDEZVOUS_CA": certificate, "SOME_ROOTS": certificate, "CADRE_GATEWAY_DOMAIN": "apps.cloud.example", "CADRE_RENDEZVOUS": "https://rendezvous.example:443",
		"PASSWORD_FILE": "/run/mesh/secrets/superuser", "DB_PASSWORD": "/run/mesh/secrets/db", "TOKEN_TTL": "3600s", "SECRET_NAME": "superuser", "REQUIRE_TOKEN": "true",
		"MAX_TOKENS": "128000", "TOKENIZER": "cl100k_base", "TOKEN_URL": "https://issuer.example/token", "OPERATOR_TOKEN_SHA256": strings.Repeat("9f86d081", 8),
		"PASSWORD": "", "API_KEY": "${API_KEY}", "GIT_COMMIT": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "IMAGE": "registry.example/team/app@sha256:" + strings.Repeat("0a1b2c3d", 8),
		"BUILD_ID": "20261121T145325Z-9f86d081", "DSN": "postgres://app@postgres-0,postgres-1/app?sslmode=disable", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin",
		"JAVA_OPTS": "-Xmx512m -XX:+UseG1GC -Dfile.encoding=UTF-8", "TRACE_ID": "2f6d7a1e-0000-4000-8000-000000000000", "INSTANCE": "2f6d7a1e-0000-4000-8000-000000000000",
		"KEYBOARD": "qwertz", "MONKEY": "banana", "PUBLIC_KEY": "see-the-wiki", "COMPASS": "north", "SECRETARY": "Ms. Example", "FEATURES": "a,b,c,d-long-feature-name,another-long-feature",
		"CLASS": "com.example.VeryLongFactoryBeanNameGenerator", "PRIVATE_KEY_PATH": "/etc/tls/key.pem", "DSN2": "amqp://user:$PASSWORD@mq/vhost", "ZEROS": strings.Repeat("0", 64),
	}
	s := goodSpec()
	s.Template.Env = env
	for _, p := range problems(t, s) {
		if strings.Contains(p, "SECRET_IN_SPEC") {
			t.Errorf("refused: %s", p)
		}
	}
}

func TestOPS07_NotSecretListsHarmlessNames(t *testing.T) {
	s := goodSpec()
	s.Template.Env = map[string]string{"SESSION_TOKEN": "cookie-name"}
	s.NotSecret = []string{"SESSION_TOKEN"}
	if p := problems(t, s); len(p) > 0 {
		t.Errorf("a listed name is refused: %v", p)
	}
	s.NotSecret = append(s.NotSecret, "OTHER")
	wantProblem(t, s, "not_secret[1]", "")
	s.NotSecret = s.NotSecret[:1]
	s.Template.Env["SESSION_TOKEN"] = "-----BEGIN PRIVATE KEY-----\nMHcCAQEEIAbc"
	wantProblem(t, s, `template.env["SESSION_TOKEN"]`, "SECRET_IN_SPEC")
}

func TestOPS07_PrivateKeysInOtherFieldsAreRefused(t *testing.T) {
	pem := "-----BEGIN RSA PRIVATE KEY-----\nabc"
	s := goodSpec()
	s.Template.Compose += "    environment:\n      KEY: |\n        " + strings.ReplaceAll(pem, "\n", "\n        ") + "\n"
	wantProblem(t, s, "template.compose", "SECRET_IN_SPEC")
}

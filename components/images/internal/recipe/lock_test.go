package recipe

import (
	"strings"
	"testing"
)

var digest = strings.Repeat("ab", 32)

func TestLockSaysWhatIsWrongWithEachLine(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"unknown kind", "rpm dash 1 x 1 y", `x.lock:2: a line begins with deb, jar, program, time or wheel, not "rpm"`},
		{"missing field", "deb dash 1 " + digest + " 10", "x.lock:2: 5 fields, want 6: deb <name> <version> <sha256> <size> <path>"},
		{"short digest", "deb dash 1 abcd 10 debian/pool/main/d/dash/dash_1_amd64.deb", `x.lock:2: "abcd" is no SHA-256`},
		{"upper-case digest", "deb dash 1 " + strings.ToUpper(digest) + " 10 debian/pool/main/d/dash/dash_1_amd64.deb", "is no SHA-256"},
		{"no size", "deb dash 1 " + digest + " -1 debian/pool/main/d/dash/dash_1_amd64.deb", `x.lock:2: "-1" is no size`},
		{"huge size", "deb dash 1 " + digest + " 99999999999 debian/pool/main/d/dash/dash_1_amd64.deb", "is no size"},
		{"a host", "deb dash 1 " + digest + " 10 http://mirror/debian/pool/main/d/dash/dash_1_amd64.deb", "x.lock:2:"},
		{"path leads out", "deb dash 1 " + digest + " 10 debian/pool/../../dash_1_amd64.deb", "is no path such as"},
		{"another archive", "deb dash 1 " + digest + " 10 ubuntu/pool/main/d/dash/dash_1_amd64.deb", "is no path such as"},
		{"name of a package", "deb Dash/.. 1 " + digest + " 10 debian/pool/main/d/dash/dash_1_amd64.deb", "is no name of a package"},
		{"wheel's name", "wheel PyYAML 6.0 " + digest + " 10 pyyaml-6.0-py3-none-any.whl", `use "pyyaml"`},
		{"wheel's file", "wheel pyyaml 6.0 " + digest + " 10 ../pyyaml.whl", "is no name of a wheel"},
		{"jar's name", "jar slf4j-api 1.7.36 " + digest + " 10", "is no jar such as"},
		{"jar leads out", "jar org.slf4j:.. /1 " + digest + " 10", "is no jar such as"},
		{"toolchain", "program consul go1 " + digest + " 10", "is no program"},
		{"time", "time yesterday", `"yesterday" is no time`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseLock("x.lock", []byte("time 2026-01-02T03:00:00Z\n"+c.line+"\n"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLockReportsAllProblemsAtOnce(t *testing.T) {
	_, err := ParseLock("x.lock", []byte("# nothing\nfoo\n\nwheel a\n"))
	for _, want := range []string{"x.lock:2:", "x.lock:4:", "no line gives its time"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestLockNamesAPackageOnce(t *testing.T) {
	line := "deb dash 1 " + digest + " 10 debian/pool/main/d/dash/dash_1_amd64.deb\n"
	_, err := ParseLock("x.lock", []byte("time 2026-01-02T03:00:00Z\n"+line+line))
	if err == nil || !strings.Contains(err.Error(), "x.lock:3: deb dash is on line 2 already") {
		t.Errorf("got %v", err)
	}
}

func TestLockIsReadAsItIsWritten(t *testing.T) {
	text := "time 2026-01-02T03:00:00Z\n" +
		"deb dash 0.5.12-2 " + digest + " 91848 debian/pool/main/d/dash/dash_0.5.12-2_amd64.deb\n" +
		"deb libc6 2.36-9+deb12u14 " + digest + " 10 debian-security/pool/updates/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb\n" +
		"jar org.slf4j:slf4j-api 1.7.36 " + digest + " 9\n" +
		"program consul go1.26.8 " + digest + " 5\nwheel pyyaml 6.0.3 " + digest + " 7 PyYAML-6.0.3-cp311-cp311-manylinux2014_x86_64.whl\n"
	l, err := ParseLock("x.lock", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(l.Format()), "\n")
	if got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
}

func FuzzLock(f *testing.F) {
	f.Add([]byte("time 2026-01-02T03:00:00Z\ndeb dash 1 " + digest + " 10 debian/pool/main/d/dash/dash_1_amd64.deb\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLock("x.lock", data)
		if err != nil {
			return
		}
		if _, err := ParseLock("x.lock", l.Format()); err != nil {
			t.Errorf("what was read cannot be written and read: %v", err)
		}
	})
}

func TestJarsAreWhereMavenHasThem(t *testing.T) {
	j := NewJar("org.apache.kafka:kafka_2.13:4.4.0")
	if got, want := j.Path(), "org/apache/kafka/kafka_2.13/4.4.0/kafka_2.13-4.4.0.jar"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

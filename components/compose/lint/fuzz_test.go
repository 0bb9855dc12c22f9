package lint

import (
	"strings"
	"testing"

	"cadre.dev/core/group"

	"cadre.dev/core/appcompose"
)

// FuzzLint: each text has an answer, and a text without findings means one thing: every service is
// pinned for the line scanner, and loads.
func FuzzLint(f *testing.F) {
	f.Add(good)
	f.Add(web("entrypoint: [sh, -c, \"$A\"]"))
	f.Add("x-a: &a {b: [*a]}\nservices: *a\n")
	f.Add("services:\n  a:\n    image: \"x\\x24{A}\"\n    <<: {build: .}\n")
	f.Add("services: {a: !reset {image: x}}\n---\n? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		found := Lint([]byte(text))
		for _, finding := range found {
			if finding.Line < 1 || finding.Column < 1 || finding.Rule == "" || finding.Message == "" {
				t.Errorf("finding without place or reason: %+v", finding)
			}
		}
		if len(Errors(found)) > 0 {
			return
		}
		images, problems := group.ComposeImages(text)
		if len(problems) > 0 || len(images) == 0 {
			t.Errorf("passes, and the line scanner says %v: %q", problems, text)
		}
		for _, i := range images {
			if group.ImageProblem(i.Image) != "" {
				t.Errorf("image %q passes", i.Image)
			}
		}
	})
}

// FuzzVariable: the rules find every variable that compose-go would fill in, so its
// own comparison never is the first to.
func FuzzVariable(f *testing.F) {
	for _, v := range []string{"$A", "${A}", "$$A", "$$$A", "${A:-${B}}", "$ſ", "a$", "$(x)", "${", "$_", "$1A", "${A:?x}"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.ContainsAny(value, "\n\r'\\") || len(value) > 60 {
			return
		}
		text := web("entrypoint: [sh, '" + value + "']")
		found := Lint([]byte(text))
		if variable(value) != "" {
			return
		}
		for _, finding := range found {
			if finding.Rule == RuleVariable {
				t.Errorf("compose-go finds a variable in %q: %v", value, finding)
			}
		}
	})
}

func FuzzAppComposeLint(f *testing.F) {
	f.Add([]byte(`{"runner":"docker-compose","docker_compose_file":"services: {}","allowed_envs":["PATH"],"kms_enabled":true}`))
	f.Fuzz(func(_ *testing.T, raw []byte) { AppCompose(raw, appcompose.Rules{}) })
}

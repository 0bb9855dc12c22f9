// Package measure determines the measured documents of a group's CVMs. The package renders their
// app-compose.json, and decides which bytes of a platform's answer may be allowed. The coordinator
// accepts no foreign hash; it hashes the document that it has judged.
package measure

import (
	"maps"
	"slices"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/platform"
)

// Measure is for one cluster. Safe for concurrent use.
type Measure struct {
	cluster string
	rules   appcompose.Rules
}

// New makes a Measure; rules come from the measured trust file.
func New(cluster string, rules appcompose.Rules) Measure {
	return Measure{cluster: cluster, rules: rules}
}

// Render returns the document of a group's Template. The document is the same for all Slots: dstack
// measures the app's document, and the coordinator learns the differences between Slots at
// admission.
func (m Measure) Render(groupName string, t group.Template) ([]byte, error) {
	return m.rules.Render(m.name(groupName), t.Compose, names(t))
}

// Settle returns the document whose hash may be allowed for a Template, from the sent document and
// the platform's answer. Settle returns *appcompose.Refusal if neither may be allowed.
func (m Measure) Settle(groupName string, t group.Template, sent []byte, p platform.Provisioned) ([]byte, error) {
	return appcompose.Settle(sent, appcompose.Answer{Hash: p.ComposeHash, Text: p.AppCompose}, appcompose.Want{
		Name: m.name(groupName), Compose: t.Compose, Envs: names(t), Locators: appcompose.MemberLocators(), Rules: m.rules,
	})
}

func (m Measure) name(groupName string) string { return m.cluster + "-" + groupName }

func names(t group.Template) []string { return slices.Collect(maps.Keys(t.Env)) }

package simulated

import (
	"fmt"

	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
)

// ComposeHash returns the hash of the document that Cadre sends a platform for a template of a
// group. An operator approves this hash after reading the document.
func ComposeHash(cluster, name string, t group.Template) (string, error) {
	text, err := measure.New(cluster, appcompose.Rules{}).Render(name, t)
	if err != nil {
		return "", fmt.Errorf("measure %s: %w", name, err)
	}
	return appcompose.Hash(text), nil
}

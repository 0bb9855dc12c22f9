package group

import "strings"

// EditWarnings lists edits of a spec that look effective and have no effect.
func EditWarnings(old, next Spec) []string {
	if old.Workload.Kind != WorkloadPatroni || next.Workload.Kind != WorkloadPatroni {
		return nil
	}
	was, is := yamlBlock(old.Template.Compose, "bootstrap:"), yamlBlock(next.Template.Compose, "bootstrap:")
	if was == "" || is == "" || was == is {
		return nil
	}
	return []string{"bootstrap_read_once: Patroni reads bootstrap (bootstrap.dcs, bootstrap.initdb) only when it founds the cluster, so that this edit updates the members and changes nothing in a cluster that runs: " +
		"change the settings of bootstrap.dcs by PATCH /config of Patroni's REST API (patronictl edit-config), or each member's own settings by postgresql.parameters"}
}

// yamlBlock returns the lines below the first line that is key, without empty lines and comments;
// empty without such a line. The text may be a script that writes the YAML, so only indentation
// counts.
func yamlBlock(text, key string) string {
	var block strings.Builder
	within := -1 // the indentation of key
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case trimmed == "" || trimmed[0] == '#':
		case within >= 0 && indent <= within:
			return block.String()
		case within >= 0:
			block.WriteString(line[within:])
		case trimmed == key:
			within = indent
		}
	}
	return block.String()
}

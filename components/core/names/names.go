// Package names writes lists of names into messages.
package names

import (
	"fmt"
	"strings"
)

// Shown is the maximum number of names in a message.
const Shown = 5

// Few joins the first names of a list, and adds the number of the other names. No message therefore grows with the size
// of a group or a cluster.
func Few(list []string, between string) string {
	if more := len(list) - Shown; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(list[:Shown], between), between, more)
	}
	return strings.Join(list, between)
}

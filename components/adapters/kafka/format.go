package kafka

import (
	"strconv"
	"strings"
)

// metadataVersions are the names of the levels of the feature metadata.version from level 7 on: Kafka 4.4.0,
// org.apache.kafka.server.common.MetadataVersion.
var metadataVersions = strings.Fields(`
	3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0
	4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2`)

const firstMetadataVersion = 7

// formatName is the name of a level of metadata.version: "4.0-IV3"; a level without a known name is "level 40". 0 is
// not known, and empty.
func formatName(level int16) string {
	switch at := int(level) - firstMetadataVersion; {
	case level == 0:
		return ""
	case at >= 0 && at < len(metadataVersions):
		return metadataVersions[at]
	default:
		return "level " + strconv.Itoa(int(level))
	}
}

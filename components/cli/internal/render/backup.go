package render

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/backup"
)

// backupOld is the age from which a backup is shown as old; the alert CadreBackupOld has the same.
const backupOld = 26 * time.Hour

// Backup prints where a backup is, and its content.
func Backup(s Style, path string, b client.Backup) string {
	text := fmt.Sprintf("%s: %d records, %s, term %d, state %d\nsha256 %s\n", path, b.Header.Records, format.Bytes(b.Bytes), b.Header.Term, b.Header.State, b.SHA256)
	for _, key := range b.LeftOut {
		text += s.Paint("left out: "+key+": no coordinator can use this record", Warn) + "\n"
	}
	return text
}

// LastBackup is the line of `cadre cluster status` about backups; b nil: unknown.
func LastBackup(s Style, b *client.LastBackup, now time.Time) string {
	if b == nil {
		return ""
	}
	cell := Cell{"none: make one with `cadre cluster backup`", Warn}
	if !b.At.IsZero() {
		age := now.Sub(b.At)
		cell = Cell{fmt.Sprintf("%s ago, %d records, by %s", format.Ago(age), b.Records, b.By), Plain}
		if age > backupOld {
			cell.Tone = Warn
		}
	}
	fields := []Field{{"last backup", cell}}
	if !b.RestoredAt.IsZero() {
		fields = append(fields, Field{"restored", Cell{fmt.Sprintf("%s ago, from the backup of %s", format.Ago(now.Sub(b.RestoredAt)), b.RestoredFrom.UTC().Format(time.RFC3339)), Plain}})
	}
	return s.Fields(fields...)
}

// decided are the records of operators whose later changes a backup lacks, in the words of a person.
var decided = []struct{ words, pattern string }{
	{"specs of groups", "groups/<group>/spec"},
	{"revocations", "control/revocations/<revocation>"},
	{"floors", "control/floor/<scope>"},
	{"approvals", "control/approvals/<revision>"},
	{"exceptions for machines", "control/tcb-exceptions/<id>"},
	{"epochs of secrets", "secrets/<group>/<secret>"},
	{"freezes", "control/freeze/<scope>"},
	{"pauses", "control/pause/<group>"},
}

// RestoreContent prints the numbers of records that the operator compares with the changes since the
// backup.
func RestoreContent(s Style, h backup.Header, now time.Time) string {
	rows := [][]Cell{}
	for _, d := range decided {
		rows = append(rows, []Cell{C(d.words), C(fmt.Sprint(h.Kinds[d.pattern]))})
	}
	return fmt.Sprintf("the backup is of %s, %s ago: term %d, state %d\n", h.At.UTC().Format(time.RFC3339), format.Ago(now.Sub(h.At)), h.Term, h.State) +
		s.Table([]string{"IT HAS", "NUMBER"}, rows)
}

// RestoreNext prints the steps after a restore.
func RestoreNext(cluster string) string {
	var b strings.Builder
	b.WriteString("the cluster is halted: nothing is planned and no CVM is changed until you accept the restore. Next:\n")
	for n, step := range []string{
		"repeat the changes that the backup lacks: revocations, floors and approvals (`cadre admission list`), specs (`cadre group diff FILE`), rotations of secrets, requests and deletions",
		"`cadre cluster accept-restore`, then again with --reason and --yes",
		"for each group with members that were made since: `cadre group adopt GROUP`",
		"`cadre cluster backup`: the restored cluster has no backup yet",
	} {
		fmt.Fprintf(&b, "  %d. %s\n", n+1, step)
	}
	fmt.Fprintf(&b, "cluster %s continues under its cluster ID, with the same keys and secrets\n", cluster)
	return b.String()
}

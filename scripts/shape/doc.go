// Program shape computes figures of the structure of packages from their production files, and
// fails where a figure is worse than recorded.json says. The packages that decide cannot grow back
// silently: a worse figure has to be recorded in a commit, which gives the reason.
//
//	shape           prints the figures, and fails where one is worse than recorded
//	shape -exact    prints differences only, and fails for a better figure that is not recorded too
//	shape -json     prints the figures in the form of recorded.json
//	shape -record   writes the figures to recorded.json
//
// The program runs at the root of the repository. The list in recorded.json names the packages: a
// successor is added there by hand, as {"package": "components/..."}, and -record fills in the rest.
// "type" names a struct whose fields count separately. A named package or type that is gone is
// an error.
//
// Each figure is better the lower it is:
//
//   - lines: as `wc -l` counts the files that are compiled, tests excluded.
//   - arrows between files: ordered pairs of files of which the first one uses an identifier that
//     the second one declares: a package-level name, a method or a field. The types of Go's own type
//     checker say which declaration a use means.
//   - upward arrows: the arrows from a lower file to a higher one, in an order that is built from
//     the bottom. The next file uses the fewest of the files that have no place yet.
//     Of several, it is the file with the most users among them; of several again, the first by name.
//     Files without cycles have no upward arrow. The order is greedy: a better order may exist, and
//     in a tangle the end of one arrow can add one or two upward arrows.
//   - && and || per 100 lines, to one decimal.
//   - fields of the largest struct. An embedded struct counts as one field.
//   - fields of the named type, and its fields of type bool.
//   - methods of one type: of the type that has the most.
//   - constants of time: constants of type time.Duration, and package variables of this type or
//     whose value contains a constant of this type. A variable with several times counts as one.
//   - constants of time without a comment of their own: the comment of a block in parentheses
//     explains the block, and not each value.
package main

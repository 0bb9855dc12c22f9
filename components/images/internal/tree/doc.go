// Package tree merges the files of packages into the layer of an image.
//
// What packages carry is foreign: a Tree takes clean relative paths only, follows the
// links of a merged /usr and no other, takes no devices, and refuses two packages that
// disagree about a file. It knows nothing of where files come from: their bytes stay on
// disk until WriteTar asks for them.
package tree

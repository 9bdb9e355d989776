package sizing

import (
	"fmt"
	"math"
	"strconv"
)

// Columns returns the titles of the texts of a Plan.
func Columns() []string {
	return []string{"SERVE CORES", "BROKER CORES", "STORE CORES", "DISK/DAY", "DISK", "INDICES", "SHARDS", "WRITE SHARDS", "INSTALLATIONS"}
}

// Texts returns the values of the plan for Columns.
func (p Plan) Texts() []string {
	return []string{
		cores(p.Serve), cores(p.Broker), cores(p.Store), Bytes(p.DiskADay), Bytes(p.Disk),
		strconv.Itoa(p.Indices), strconv.Itoa(p.Shards), strconv.Itoa(p.WriteShards), strconv.Itoa(p.Installations),
	}
}

// cores returns a number of cores, in tenths below ten.
func cores(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.1f", math.Ceil(n*10)/10)
	}
	return fmt.Sprintf("%.0f", math.Ceil(n))
}

// Bytes returns a size of two digits or more.
func Bytes(n float64) string { return scaled(n, " B", " kB", " MB", " GB", " TB", " PB") }

// Amount returns a number of two digits or more.
func Amount(n float64) string { return scaled(n, "", "k", "M", "G", "T", "P") }

func scaled(n float64, units ...string) string {
	at := 0
	for n >= 1000 && at < len(units)-1 {
		n /= 1000
		at++
	}
	if n < 10 && n != math.Trunc(n) {
		return fmt.Sprintf("%.1f%s", n, units[at])
	}
	return fmt.Sprintf("%.0f%s", n, units[at])
}

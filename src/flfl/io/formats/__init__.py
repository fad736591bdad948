"""File formats: each file here reads one into named columns, or writes one."""

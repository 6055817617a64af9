-- compatible_from: 18
-- A claim and the end of a run write new versions of an entry. With room for one on its own page, the claim locks the entry
-- once instead of twice, and logs the changed part instead of the whole row.
ALTER TABLE gandy.work_queue SET (fillfactor = 45);

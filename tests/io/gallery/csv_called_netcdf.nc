time,a
1,2
